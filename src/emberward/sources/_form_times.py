"""Measures operations in the form that a job has them and in another one, in turns. Needs torch; run as a program.

It reads a list of forms from its input and writes a list of times to a file: seconds of processor time for each of its
threads, which others on the host do not lengthen.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

SECONDS = 0.6
"""For a form."""
MIN_TURNS = 5
Call = Callable[[], Tensor]


def main() -> None:
    """Each form of the input in turns with its other form."""
    torch.set_num_threads(int(sys.argv[1]))
    Path(sys.argv[2]).write_text(json.dumps([_times(form) for form in json.load(sys.stdin)]), encoding="utf-8")


def _times(form: dict[str, Any]) -> dict[str, float]:
    now, other = _attention(form)
    spent: tuple[list[float], list[float]] = [], []
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(spent[0]) < MIN_TURNS:
        for call, seconds in zip((now, other), spent, strict=True):
            begin = time.process_time()
            result = call()
            if form["needs_grad"]:
                torch.autograd.backward(result, torch.ones_like(result))
            seconds.append((time.process_time() - begin) / torch.get_num_threads())
    (now_low, now_s, _), (_, other_s, other_high) = (statistics.quantiles(each[1:], n=4) for each in spent)
    return {
        "now_s": now_s, "now_low_s": now_low, "other_s": other_s, "other_high_s": other_high,
    }  # fmt: skip


def _attention(form: dict[str, Any]) -> tuple[Call, Call]:
    dtype, needs_grad, rate = getattr(torch, form["dtype"]), form["needs_grad"], form["dropout"]
    num, queries, keys = form["products"], form["queries"], form["keys"]
    q, k, v = (
        torch.randn(1, num, length, width, dtype=dtype, requires_grad=needs_grad)
        for length, width in ((queries, form["width"]), (keys, form["width"]), (keys, form["values"]))
    )
    mask = None if form["mask"] == "none" else torch.ones(queries, keys, dtype=torch.bool).tril()

    def now() -> Tensor:
        scores = q @ k.transpose(-2, -1) / form["width"] ** 0.5
        weights = (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(-1)
        return (F.dropout(weights, rate) if rate else weights) @ v

    def other() -> Tensor:
        is_causal = form["mask"] == "causal"
        given = None if is_causal else mask
        return F.scaled_dot_product_attention(q, k, v, given, dropout_p=rate, is_causal=is_causal)

    return now, other


if __name__ == "__main__":
    main()
