"""Backwards that compute gradients which nothing reads, or go twice through a graph. Pure.

See [Note: unread gradients] in the probe.
"""

import bisect
from collections import Counter
from collections.abc import Sequence

from emberward.findings import Cause
from emberward.lens._operations import RankOperations, Unread
from emberward.lens._waste import Waste
from emberward.lens._work import NODE, RankWork


def unread_gradients(work: RankWork, rank: RankOperations, ranks: Sequence[RankOperations]) -> Waste | None:
    """What a step spends in nodes of backwards that no gradient needs which is read; None where there are none."""
    del ranks
    unread = [each for each in rank.unread if not each.is_again]
    says = "compute for gradients of {} parameters, {} numbers, that are cleared, or left, without an optimizer's step"
    return _in_nodes(Cause.UNUSED_RESULT, unread, says, work, rank)


def backward_again(work: RankWork, rank: RankOperations, ranks: Sequence[RankOperations]) -> Waste | None:
    """What a step spends in nodes of a kept graph that an earlier backward went through; None where there are none."""
    del ranks
    again = [each for each in rank.unread if each.is_again]
    says = (
        "were gone through before, and add to the same gradients of {} parameters, {} numbers: one backward of the sum"
    )
    return _in_nodes(Cause.REDUNDANT_WORK, again, says, work, rank)


def _in_nodes(
    cause: Cause, backwards: Sequence[Unread], says: str, work: RankWork, rank: RankOperations
) -> Waste | None:
    # Most steps have them: gradients that are looked at now and then are not worth a change.
    steps = {bisect.bisect_right(rank.bounds_s, each.backward[0]) for each in backwards}
    if 2 * len(steps) <= rank.num_steps:
        return None
    nodes = [op for op in rank.operations if op.name.startswith(NODE)]
    cost_s = 0.0
    for each in backwards:
        began_s, ended_s = each.backward
        inside = [op for op in nodes if began_s <= op.began_s < ended_s and op.sequence in each.sequences]
        cost_s += sum(op.ended_s - op.began_s for op in inside) / rank.num_steps
    last = backwards[-1]
    return Waste(
        cause=cause,
        site=Counter(each.site for each in backwards).most_common(1)[0][0] or None,
        cost_s=cost_s,
        share=cost_s / work.step_s,
        ranks=(work.rank,),
        evidence=(
            f"{len(last.sequences)} nodes of the backward {says.format(last.num_parameters, f'{last.numel:,}')}",
        ),
    )
