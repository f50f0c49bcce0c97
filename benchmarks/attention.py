"""Processor time of attention with ALiBi by a mask and folded into q and k, forward and backward, by length.

    python benchmarks/attention.py [--fresh]

The two take turns. What `families/_sizes.py` ALIBI_FOLDED_FROM says follows from it.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from emberward.families._sizes import ALIBI_FOLDED_FROM
from emberward.families.alibi import Alibi
from emberward.families.bloom.modules import alibi_slopes

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from measured import Results, add_options

HEADS, WIDTH, ROUNDS = 4, 64, 7
LENGTHS = (128, 256, 512, 768, 1024, 1536, 2048)


def seconds(attend: Callable[..., Tensor], inputs: list[Tensor]) -> float:
    """Processor seconds of a forward and a backward."""
    for each in inputs:
        each.grad = None
    started_s = time.process_time()
    attend(*inputs).sum().backward()
    return time.process_time() - started_s


def compare(dtype: torch.dtype, length: int) -> dict[str, float]:
    """Median milliseconds of both, and folded over masked."""
    alibi = Alibi(alibi_slopes(HEADS))
    inputs = [torch.randn(1, HEADS, length, WIDTH).to(dtype).requires_grad_() for _ in range(3)]
    taken: dict[str, list[float]] = {"masked": [], "folded": []}
    with torch.no_grad():
        both = [alibi.masked(*inputs), alibi.folded(*inputs)]
    # One object each: what it keeps between calls is its own form's.
    forms = {name: getattr(Alibi(alibi_slopes(HEADS)), name) for name in taken}
    for number in range(1 + ROUNDS):
        for name, form in forms.items():
            used = seconds(form, inputs)
            if number:
                taken[name].append(used)
    medians = {name: 1e3 * statistics.median(each) for name, each in taken.items()}
    return {
        **{f"{name}_ms": round(value, 3) for name, value in medians.items()},
        "folded_over_masked": round(medians["folded"] / medians["masked"], 3),
        "largest_difference": float((both[0] - both[1]).abs().max()),
    }


def main() -> int:
    """Measures and keeps every length."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    results = Results(
        "attention",
        what="attention with ALiBi by a mask and folded into q and k: processor time, forward and backward",
        measures=["benchmarks/attention.py", "src/emberward/families/alibi.py"],
        is_fresh=options.fresh,
        folder=options.into,
    )
    for dtype in (torch.float32, torch.bfloat16):
        for length in LENGTHS:
            results.add(f"{str(dtype).removeprefix('torch.')} {length}", compare(dtype, length))
    ratios = {key: row["folded_over_masked"] for key, row in results.latest().items()}
    results.summarise({"folded_over_masked": ratios, "folded_from": ALIBI_FOLDED_FROM})
    return 0


if __name__ == "__main__":
    sys.exit(main())
