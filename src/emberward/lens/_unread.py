"""Backwards that compute gradients which nothing reads. Pure. See [Note: unread gradients] in the probe.

Where a backward also adds to gradients of others than parameters of modules, as an attack's does to its input, what it
computes last is for these.
"""

import bisect
from collections import Counter
from collections.abc import Sequence

from emberward.findings import Cause
from emberward.lens._operations import RankOperations, Unread
from emberward.lens._waste import Waste
from emberward.lens._work import RankWork

_ADDS = "torch::autograd::AccumulateGrad"


def unread_gradients(work: RankWork, rank: RankOperations, ranks: Sequence[RankOperations]) -> Waste | None:
    """What a step spends in backwards after the last gradient that is read; None where each backward ends with one."""
    del ranks
    adding = sorted(op.began_s for op in rank.operations if op.name.startswith(_ADDS))

    def is_all(each: Unread) -> bool:
        began_s, ended_s = each.backward
        return bisect.bisect_right(adding, ended_s) - bisect.bisect_left(adding, began_s) <= each.num_added

    found = [each for each in rank.unread if is_all(each)]
    # Most steps have them: gradients that are looked at now and then are not worth a change.
    steps = {bisect.bisect_right(rank.bounds_s, each.span[0]) for each in found}
    if 2 * len(steps) <= rank.num_steps:
        return None
    cost_s = sum(ended_s - began_s for began_s, ended_s in (each.span for each in found)) / rank.num_steps
    last = found[-1]
    return Waste(
        cause=Cause.UNUSED_RESULT,
        site=Counter(each.site for each in found).most_common(1)[0][0] or None,
        cost_s=cost_s,
        share=cost_s / work.step_s,
        ranks=(work.rank,),
        evidence=(
            f"the backward ends with gradients of {last.num_parameters} parameters, {last.numel:,} numbers, "
            "that are cleared, or left, without an optimizer's step",
        ),
    )
