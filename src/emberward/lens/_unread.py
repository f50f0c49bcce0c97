"""Backwards that compute gradients which nothing reads, or go twice through a graph. Pure.

See [Note: unread gradients] in the probe.
"""

import bisect
from collections.abc import Sequence

from emberward.findings import Cause
from emberward.lens._gathers import times
from emberward.lens._operations import RankOperations, Unread
from emberward.lens._spans import Spans, both
from emberward.lens._waste import Waste
from emberward.lens._work import NODE, RankWork

_BYTES = 4
"""Of a number of a gradient, as most are."""


def unread_gradients(site: str, work: RankWork, rank: RankOperations, ranks: Sequence[RankOperations]) -> Waste | None:
    """What a step spends in nodes of the backwards of a line that no gradient needs which is read; None for none."""
    del ranks
    unread = [each for each in rank.unread if each.num_parameters and not each.is_again]
    says = "compute for gradients of {} parameters, {} numbers, that are cleared, or left, without an optimizer's step"
    return _in_nodes(Cause.UNUSED_RESULT, site, unread, says, work, rank)


def unread_inputs(site: str, work: RankWork, rank: RankOperations, ranks: Sequence[RankOperations]) -> Waste | None:
    """What a step spends in nodes of the backwards of a line for gradients of inputs that nothing reads; None for none.

    See [Note: gradients of inputs] in the probe.
    """
    del ranks
    says = "compute for gradients of inputs, which no line reads: what is no parameter need not require any"
    return _in_nodes(Cause.UNUSED_RESULT, site, [each for each in rank.unread if each.num_inputs], says, work, rank)


def backward_again(site: str, work: RankWork, rank: RankOperations, ranks: Sequence[RankOperations]) -> Waste | None:
    """What a step spends at a line in nodes of a kept graph that an earlier backward went through; None for none."""
    del ranks
    again = [each for each in rank.unread if each.is_again]
    says = (
        "were gone through before, and add to the same gradients of {} parameters, {} numbers: one backward of the sum"
    )
    return _in_nodes(Cause.REDUNDANT_WORK, site, again, says, work, rank)


def _reduced_s(unread: Unread, work: RankWork, num_steps: int) -> float:
    """What a step waits for sums of gradients that nothing reads, among those that its backward issues, by size."""
    began_s, ended_s = unread.backward
    inside = [each for each in work.transfers if began_s <= each.began_s < ended_s and "reduce" in each.op]
    num_bytes = sum(each.num_bytes for each in inside)
    share = min(unread.numel * _BYTES / num_bytes, 1.0) if num_bytes else 0.0
    return share * work.pace.of(both(work.exposed, times(inside)), num_steps)


def _in_nodes(
    cause: Cause, site: str, unread: Sequence[Unread], says: str, work: RankWork, rank: RankOperations
) -> Waste | None:
    backwards = [each for each in unread if each.site == site]
    # Most steps have them: gradients that are looked at now and then are not worth a change.
    steps = {bisect.bisect_right(rank.bounds_s, each.backward[0]) for each in backwards}
    if 2 * len(steps) <= rank.num_steps:
        return None
    nodes = [op for op in rank.operations if op.name.startswith(NODE)]
    whole: Spans = []
    halves: Spans = []
    for each in backwards:
        began_s, ended_s = each.backward
        inside = [op for op in nodes if began_s <= op.began_s < ended_s]
        whole += [(op.began_s, op.ended_s) for op in inside if op.sequence in each.sequences]
        halves += [(op.began_s, op.ended_s) for op in inside if op.sequence in each.half]
    # Nobody knows yet that the last gradients are not read where the next step begins by clearing them.
    known = max(steps)
    # A second backward of one graph reduces the sum all the same: with the other one or by itself.
    reduced_s = sum(_reduced_s(each, work, known) for each in backwards if not each.is_again)
    cost_s = work.pace.of(whole, known) + work.pace.of(halves, known) / 2 + reduced_s
    last = backwards[-1]
    num_nodes, numel = len(last.sequences) + len(last.half), f"{last.numel:,}"
    return Waste(
        cause=cause,
        site=site or None,
        cost_s=cost_s,
        share=cost_s / work.pace.step_s,
        ranks=(work.rank,),
        evidence=(f"{num_nodes} nodes of the backward {says.format(last.num_parameters, numel)}",),
    )
