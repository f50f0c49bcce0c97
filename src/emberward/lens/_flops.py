"""Floating-point operations of the calls that a job made. Pure."""

import math
import re
from collections.abc import Sequence

from emberward.lens._operations import Operation

ATTENTION = re.compile(r"^aten::_scaled_dot_product_\w*attention\w*$")


def flops_of(operation: Operation) -> int:
    """Floating-point operations of one call; a multiply-add is two. 0 for what is not counted, elementwise work too.

    Matrix products and attention as `torch.utils.flop_counter` (torch 2.13) counts them, the attention's masked half
    included; a convolution's backward is two of its forward.
    """
    name, shapes = operation.name.removeprefix("aten::"), operation.shapes
    try:
        match name:
            case "mm" | "_scaled_mm":
                return _product(shapes[0], shapes[1])
            case "addmm" | "_addmm_activation":
                return _product(shapes[1], shapes[2])
            case "bmm":
                return _product(shapes[0], shapes[1])
            case "baddbmm":
                return _product(shapes[1], shapes[2])
            case "conv1d" | "conv2d" | "conv3d":
                return operation.flops
            case "convolution_backward":
                given, weight = shapes[0], shapes[2]
                return 2 * 2 * math.prod(given) * math.prod(weight) // max(weight[0], 1)
    except IndexError:
        return 0
    return _attention(operation) if ATTENTION.match(operation.name) else 0


def _product(a: Sequence[int], b: Sequence[int]) -> int:
    """2 m k n of the last two dims of `a` and `b`, for each of the batch."""
    return 2 * math.prod(a) * b[-1] if a and b else 0


def _attention(operation: Operation) -> int:
    """Two products forward. The backward has five: it computes the scores again."""
    is_backward = "backward" in operation.name
    query, key, value = operation.shapes[1:4] if is_backward else operation.shapes[:3]
    if not len(query) == len(key) == len(value) == 4:
        return 0
    batch, heads, length, width = query
    scores = 2 * batch * heads * length * key[2] * width
    values = 2 * batch * heads * length * key[2] * value[3]
    return 3 * scores + 2 * values if is_backward else scores + values
