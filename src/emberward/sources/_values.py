"""What the watches of torch's calls all ask: the tensors in a value, and whether a graph is compiled. Needs torch."""

import sys
from collections.abc import Iterator
from typing import Any

import torch

MAX_PLAIN = 1 << 16
"""Elements of a list that are looked at."""


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in a value, and in its lists and dictionaries, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from tensors_in(each)
    elif isinstance(value, list | tuple) and len(value) <= MAX_PLAIN:
        for each in value:
            yield from tensors_in(each)


def has_compiled() -> bool:
    """Whether the program has compiled a graph: a hook or a mode of ours would have it compiled again."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return dynamo is not None and bool(dynamo.counters["stats"].get("unique_graphs"))
