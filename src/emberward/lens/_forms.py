"""Operations that torch has in another form, which is faster where the job ran. Pure.

[Note: gain of another form]
What the steps compute in one of two forms that torch has ([Note: other forms] in `sources._forms`) is measured in both
after the job, in turns, with the same sizes. The cost is what the other form would save: of the forward as long as
the compared steps saw it, with the backward in the measured ratio. It has to be enough at the quartiles of the two.
Attention is told at each line that writes it out; the order of a convolution's numbers is one of a whole model, and
told at the innermost line around all of them.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from emberward.findings import Cause
from emberward.lens._operations import Form, RankOperations, Where
from emberward.lens._samples import MIN_COST_S, MIN_GAIN, RankSamples
from emberward.lens._source import Line
from emberward.lens._waste import Waste

_CAUSES = {"attention": Cause.SMALL_KERNELS, "convolution": Cause.MEMORY_FORMAT}


@dataclass(frozen=True, slots=True)
class FormTimes:
    """Seconds of one call with its backward, if it has one: in the present form the first quartile and the median, in
    the other one the median and the third quartile; and of the present one's forward."""

    now_low_s: float
    now_s: float
    other_s: float
    other_high_s: float
    forward_s: float


def forms_to_measure(operations: Sequence[RankOperations]) -> list[Mapping[str, Any]]:
    """What other forms could save enough of a step, the dearest first: a backward takes some two forwards."""
    spent: dict[str, float] = defaultdict(float)
    forms: dict[str, Mapping[str, Any]] = {}
    for rank in operations:
        for each in rank.forms:
            forms[form_key(each.computes)] = each.computes
            spent[form_key(each.computes)] += 3 * each.forward_s / max(rank.step_s, 1e-9) / len(operations)
    return [forms[key] for key in sorted(spent, key=lambda key: -spent[key]) if spent[key] >= MIN_GAIN / 2]


def form_key(computes: Mapping[str, Any]) -> str:
    """The same for the same sizes."""
    return json.dumps(computes, sort_keys=True)


def other_forms(
    operations: Sequence[RankOperations], samples: Sequence[RankSamples], times: Mapping[str, FormTimes]
) -> tuple[Waste, ...]:
    """What the steps would be shorter by in the other forms, of the rank on which that is most."""
    steps = {rank.rank: rank.measured_s / rank.num_steps for rank in samples if rank.num_steps}
    worst: dict[tuple[str, Line], Waste] = {}
    for rank in operations:
        measured = [each for each in rank.forms if form_key(each.computes) in times and rank.rank in steps]
        for (kind, line), forms in _by_place(measured).items():
            waste = _waste(kind, line, forms, times, rank.rank, steps[rank.rank])
            before = worst.get((kind, line))
            if waste is not None and (before is None or before.cost_s < waste.cost_s):
                worst[kind, line] = waste
    return tuple(worst.values())


def _by_place(forms: Sequence[Form]) -> dict[tuple[str, Line], list[Form]]:
    convolved = [each.where for each in forms if each.computes["form"] == "convolution"]
    found: dict[tuple[str, Line], list[Form]] = defaultdict(list)
    for each in forms:
        kind = each.computes["form"]
        line = each.where[0] if kind == "attention" else _around(convolved)
        if line is not None:
            found[kind, line].append(each)
    return found


def _around(places: Sequence[Where]) -> Line | None:
    """The innermost line around all places."""
    return next((line for line in places[0] if all(line in where for where in places)), None)


def _waste(
    kind: str, line: Line, forms: Sequence[Form], times: Mapping[str, FormTimes], rank: int, step_s: float
) -> Waste | None:
    found = [(each.forward_s, times[form_key(each.computes)]) for each in forms]
    cost_s = sum(seconds * (each.now_s - each.other_s) / each.forward_s for seconds, each in found)
    sure_s = sum(seconds * (each.now_low_s - each.other_high_s) / each.forward_s for seconds, each in found)
    if min(cost_s, sure_s) < max(MIN_GAIN * step_s, MIN_COST_S):
        return None
    ratio = sum(seconds * each.other_s / each.now_s for seconds, each in found) / sum(seconds for seconds, _ in found)
    computes = forms[0].computes
    if kind == "attention":
        size = f"{computes['products']} of {computes['queries']} queries and {computes['keys']} keys"
        other = f"scaled_dot_product_attention of tensors with 4 dims takes {100 * ratio:.0f}% of that here"
        said = f"attention is computed as products and a softmax ({size}); {other}"
    else:
        order = "contiguous" if computes["is_last"] else "channels_last"
        said = f"its convolutions with images and weights in the format {order} take {100 * ratio:.0f}% of that here"
    return Waste(
        cause=_CAUSES[kind],
        site=f"{line[0]}:{line[1]}",
        cost_s=cost_s,
        share=cost_s / step_s,
        ranks=(rank,),
        evidence=(f"{said}: measured with these sizes after the job",),
    )
