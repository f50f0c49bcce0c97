"""Backwards that compute gradients which nothing reads. Pure. See [Note: unread gradients] in the probe."""

import bisect
from collections import Counter
from collections.abc import Sequence

from emberward.findings import Cause
from emberward.lens._operations import RankOperations
from emberward.lens._waste import Waste
from emberward.lens._work import NODE, RankWork


def unread_gradients(work: RankWork, rank: RankOperations, ranks: Sequence[RankOperations]) -> Waste | None:
    """What a step spends in nodes of backwards that no gradient needs which is read; None where there are none."""
    del ranks
    # Most steps have them: gradients that are looked at now and then are not worth a change.
    steps = {bisect.bisect_right(rank.bounds_s, each.backward[0]) for each in rank.unread}
    if 2 * len(steps) <= rank.num_steps:
        return None
    nodes = [op for op in rank.operations if op.name.startswith(NODE)]
    cost_s = 0.0
    for each in rank.unread:
        began_s, ended_s = each.backward
        inside = [op for op in nodes if began_s <= op.began_s < ended_s and op.sequence in each.sequences]
        cost_s += sum(op.ended_s - op.began_s for op in inside) / rank.num_steps
    last = rank.unread[-1]
    return Waste(
        cause=Cause.UNUSED_RESULT,
        site=Counter(each.site for each in rank.unread).most_common(1)[0][0] or None,
        cost_s=cost_s,
        share=cost_s / work.step_s,
        ranks=(work.rank,),
        evidence=(
            f"{len(last.sequences)} nodes of the backward compute for gradients of {last.num_parameters} parameters, "
            f"{last.numel:,} numbers, that are cleared, or left, without an optimizer's step",
        ),
    )
