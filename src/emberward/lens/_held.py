"""Collectives that bring what every rank holds already. Pure. See [Note: held by all] in `sources._held`."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from emberward.findings import Cause
from emberward.lens._calls import Line
from emberward.lens._operations import Held, RankOperations

CAUSES = {"allreduce": Cause.REDUCED_TWICE, "broadcast": Cause.REDUNDANT_WORK}


def held_by_all(ranks: Sequence[RankOperations]) -> Mapping[Line, Cause]:
    """The lines whose calls were given the same by all ranks of their group, and what such a call is.

    Calls that say nothing, of a few numbers, count neither way.
    """
    by_group: dict[str, dict[int, tuple[Held, ...]]] = defaultdict(dict)
    for rank in ranks:
        for group in {call.group for call in rank.held}:
            by_group[group][rank.rank] = tuple(call for call in rank.held if call.group == group)
    told: dict[Line, Cause] = {}
    apart: set[Line] = set()
    for by_rank in by_group.values():
        is_whole = len({len(calls) for calls in by_rank.values()}) == 1
        for calls in zip(*by_rank.values(), strict=False):
            first = calls[0]
            if all(call.checksum is None for call in calls):
                continue
            told |= {call.line: CAUSES[call.op] for call in calls}
            if not is_whole or len(calls) != first.size or len({*calls}) > 1:
                apart |= {call.line for call in calls}
    return {line: cause for line, cause in told.items() if line not in apart}
