"""Ranks that wait in a call that their recorder did not write down: gloo's sends and receives, mostly.

Gloo's recorder counts them all the same, as calls of the group (``op_id``): so it is known how many each rank made
between two collectives, and who made fewer than a rank of its role.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise

from emberward.diagnose._calls import GroupName, RankFlight, integer_of
from emberward.diagnose._graph import WaitGraph
from emberward.diagnose._order import MIN_ROUNDS
from emberward.diagnose._say import hang_finding, waits
from emberward.diagnose._waits import Reading, stack_evidence
from emberward.events import HostState
from emberward.findings import Cause, Finding, Kind, Severity


def hidden_wait(
    graph: WaitGraph,
    waiting: Mapping[int, Reading],
    victims: Sequence[int],
    evidence: Sequence[str],
    *,
    ruled_out: Sequence[str],
    is_late: bool,
) -> Finding:
    """A finding on ranks whose stacks wait in calls that no dump holds, while `victims` wait for them in one.

    Of several in transfers nobody knows whose is answered by whom: none of them is accused. The rank that made fewer
    transfers than one of its role is.
    """
    ranks, first = list(waiting), next(iter(waiting.values()))
    is_p2p = first.kind is HostState.P2P
    fewer = fewer_transfers(graph.flights, victims) if is_p2p else None
    what = "a send or receive" if is_p2p else "a call"
    text = f"{waits(ranks)} in {what} that its peer does not answer, at {first.site}; {waits(victims)} behind"
    stacks = [line for reading in waiting.values() for line in stack_evidence(reading, ())]
    why = "gloo's recorder holds no sends and receives" if is_p2p else "the record of its calls does not hold it"
    if fewer is not None:
        text = f"rank {fewer} left out a send or receive before the call in which it waits, and {waits(ranks)} for one"
        text += f" at {first.site}"
        why = f"gloo counts what it does not record: rank {fewer} made fewer transfers there than a rank of its role"
    culprits = [fewer] if fewer is not None else ranks if len(ranks) == 1 or not is_p2p else []
    return hang_finding(
        "H109",
        text,
        kind=Kind.MISSING if is_p2p else Kind.HANG,
        cause=Cause.UNMATCHED_P2P if is_p2p else Cause.UNKNOWN,
        severity=Severity.ERROR if is_late or is_p2p else Severity.WARNING,
        ranks=culprits,
        waiting=sorted({*ranks, *victims} - set(culprits)),
        site=first.site,
        evidence=(*evidence, *stacks, why),
        ruled_out=ruled_out,
        next_step=f"read {first.site}: which rank is its peer, and does that rank make the partner call"
        if is_p2p
        else f"read {first.site}: which call it makes below that line, and whether its peers make it too",
    )


def fewer_transfers(flights: Mapping[int, RankFlight], ranks: Sequence[int]) -> int | None:
    """The one of some ranks in a collective that made fewer transfers before it than another which it equalled before.

    None where no two ranks have made as many each time, or several made fewer.
    """
    made = {rank: found for rank in ranks if (found := _between(flights[rank])) is not None}
    fewer = set()
    for left, right in combinations(made, 2):
        ours, theirs = made[left], made[right]
        common = sorted(ours.keys() & theirs.keys())
        if len(common) <= MIN_ROUNDS or any(ours[each] != theirs[each] for each in common[:-1]):
            continue
        if ours[common[-1]] != theirs[common[-1]]:
            fewer.add(left if ours[common[-1]] < theirs[common[-1]] else right)
    return fewer.pop() if len(fewer) == 1 else None


def _between(flight: RankFlight) -> dict[tuple[GroupName, int], int] | None:
    """How many calls each collective of the open one's group has before it that were counted and not written down."""
    if flight.head is None or flight.backend != "gloo":
        return None
    numbered = [
        (entry["collective_seq_id"], number)
        for entry in flight.groups[flight.head.group].entries
        if (number := integer_of(entry.get("op_id"))) is not None
    ]
    return {(flight.head.group, seq): number - before - 1 for (_, before), (seq, number) in pairwise(numbered)}
