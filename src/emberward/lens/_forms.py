"""Attention that is computed as products and a softmax where torch's own call is faster. Pure.

[Note: gain of another form]
What the steps compute that way ([Note: other forms] in `sources._forms`) is measured in both forms after the job, in
turns, with the same sizes, in as many processes as the job had ranks. The cost is what the other form would save of the
calls of a step. It has to be enough at the quartiles of the two.
"""

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from emberward.findings import Cause
from emberward.lens._operations import Form, RankOperations
from emberward.lens._samples import MIN_COST_S, MIN_GAIN, RankSamples
from emberward.lens._source import Line
from emberward.lens._waste import Waste


@dataclass(frozen=True, slots=True)
class FormTimes:
    """Seconds of one call with its backward, if it has one: in the present form the first quartile and the median, in
    the other one the median and the third quartile."""

    now_low_s: float
    now_s: float
    other_s: float
    other_high_s: float


def forms_to_measure(operations: Sequence[RankOperations]) -> list[Mapping[str, Any]]:
    """What the steps compute so, the most computing first."""
    spent: dict[str, float] = defaultdict(float)
    forms: dict[str, Mapping[str, Any]] = {}
    for rank in operations:
        for each in rank.forms:
            forms[form_key(each.computes)] = each.computes
            spent[form_key(each.computes)] += each.calls * _products(each.computes)
    return [forms[key] for key in sorted(spent, key=lambda key: -spent[key])]


def _products(computes: Mapping[str, Any]) -> float:
    """Multiplications in both products."""
    sizes = computes["products"], computes["queries"], computes["keys"], computes["width"] + computes["values"]
    return float(math.prod(sizes))


def form_key(computes: Mapping[str, Any]) -> str:
    """The same for the same sizes."""
    return json.dumps(computes, sort_keys=True)


def other_forms(
    operations: Sequence[RankOperations], samples: Sequence[RankSamples], times: Mapping[str, FormTimes]
) -> tuple[Waste, ...]:
    """What the steps would be shorter by in the other form, of the rank on which that is most."""
    steps = {rank.rank: rank.measured_s / rank.num_steps for rank in samples if rank.num_steps}
    worst: dict[Line, Waste] = {}
    for rank in operations:
        by_line: dict[Line, list[Form]] = defaultdict(list)
        for each in rank.forms:
            if form_key(each.computes) in times and rank.rank in steps:
                by_line[each.where[0]].append(each)
        for line, forms in by_line.items():
            waste = _waste(line, forms, times, rank.rank, steps[rank.rank])
            if waste is not None and (line not in worst or worst[line].cost_s < waste.cost_s):
                worst[line] = waste
    return tuple(worst.values())


def _waste(line: Line, forms: Sequence[Form], times: Mapping[str, FormTimes], rank: int, step_s: float) -> Waste | None:
    found = [(each.calls, times[form_key(each.computes)]) for each in forms]
    cost_s = sum(calls * (each.now_s - each.other_s) for calls, each in found)
    sure_s = sum(calls * (each.now_low_s - each.other_high_s) for calls, each in found)
    if min(cost_s, sure_s) < max(MIN_GAIN * step_s, MIN_COST_S):
        return None
    ratio = sum(calls * each.other_s for calls, each in found) / sum(calls * each.now_s for calls, each in found)
    computes = forms[0].computes
    size = f"{computes['products']} of {computes['queries']} queries and {computes['keys']} keys"
    other = f"scaled_dot_product_attention of tensors with 4 dims takes {100 * ratio:.0f}% of its time here"
    return Waste(
        cause=Cause.SMALL_KERNELS,
        site=f"{line[0]}:{line[1]}",
        cost_s=cost_s,
        share=cost_s / step_s,
        ranks=(rank,),
        evidence=(f"attention is computed as products and a softmax ({size})", f"{other}, measured after the job"),
    )
