"""Which dumps are of the run that is asked about: a folder may hold those of an earlier attempt too.

[Note: dumps of several runs]
A dump tells no run. Two dumps of one rank whose calls lie apart in time and that share no thread are of two runs; of
these the newest is judged. A dump whose calls lie apart in time from those of its peers is of another run only where
its count of calls disagrees too: nobody gets further than one open call past a peer, so a clock that is wrong changes
the times and not the counts.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low

from emberward.diagnose import NS, GroupName, ProcessStacks, RankFlight, hang_finding
from emberward.findings import Cause, Finding, Severity

COUNT_SLACK = 2
"""Calls by which two ranks' counts may differ besides those that are open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """One dump for each rank that has one of this run. `set_aside`: dumps of other runs."""

    flights: dict[int, RankFlight]
    set_aside: tuple[RankFlight, ...]
    notes: tuple[str, ...]


def choose(dumps: Mapping[int, Sequence[RankFlight]]) -> Chosen:
    """The dumps of one run. See [Note: dumps of several runs]."""
    flights: dict[int, RankFlight] = {}
    temporary: list[RankFlight] = []
    notes: list[str] = []
    for rank, found in sorted(dumps.items()):
        best = found[0]
        for other in found[1:]:
            best = _better(best, other, notes)
        flights[rank] = best
        temporary += [flight for flight in found if flight is not best and _is_apart(flight, best)]
    strange, skewed = _outsiders(flights)
    # A rank of which only an older run's dump is there is as far away as those that were set aside.
    old = [(f.first_ns, f.last_ns) for f in temporary]
    news = [f for f in flights.values() if any(g.rank == f.rank for g in temporary)]
    for rank, flight in flights.items():
        is_old = any(_meet(flight, first, last) for first, last in old)
        if is_old and news and all(_is_apart(flight, new) for new in news):
            strange.add(rank)
    temporary += [flights.pop(rank) for rank in sorted(strange)]
    notes += [text for rank, text in skewed.items() if rank not in strange]
    return Chosen(flights=flights, set_aside=tuple(temporary), notes=tuple(dict.fromkeys(notes)))


def _meet(flight: RankFlight, first: int | None, last: int | None) -> bool:
    known = (flight.first_ns, flight.last_ns, first, last)
    if None in known:
        return False
    return flight.first_ns <= last and first <= flight.last_ns  # type: ignore[operator]


def _is_apart(left: RankFlight, right: RankFlight) -> bool:
    """Whether two dumps' calls lie apart in time, as far as both tell."""
    known = (left.first_ns, left.last_ns, right.first_ns, right.last_ns)
    if None in known or (left.rank == right.rank and left.thread_ids & right.thread_ids):
        return False
    return not _meet(left, right.first_ns, right.last_ns)


def _counts(flight: RankFlight) -> dict[GroupName, int]:
    return {name: part.enqueued for name, part in flight.groups.items() if part.enqueued}


def _outsiders(flights: Mapping[int, RankFlight]) -> tuple[set[int], dict[int, str]]:
    """(ranks whose dump is of another run, for ranks whose clock alone is away a line that says so)."""
    timed = [f for f in flights.values() if f.first_ns is not None and f.last_ns is not None]
    if len(timed) < 3:
        return set(), {}
    first = median_low(f.first_ns for f in timed if f.first_ns is not None)
    last = median_low(f.last_ns for f in timed if f.last_ns is not None)
    away = [f for f in timed if not _meet(f, first, last)]
    near = [f for f in timed if _meet(f, first, last)]
    if 2 * len(near) <= len(timed):
        return set(), {}
    strange: set[int] = set()
    skewed: dict[int, str] = {}
    for flight in away:
        is_other = _disagrees(flight, near)
        seconds = ((flight.last_ns or 0) - last) / NS
        if is_other:
            strange.add(flight.rank)
        else:
            skewed[flight.rank] = (
                f"the clock of rank {flight.rank} is {abs(seconds):.0f} s {'behind' if seconds < 0 else 'ahead'}"
            )
    return strange, skewed


def _disagrees(flight: RankFlight, peers: Sequence[RankFlight]) -> bool:
    """Whether the counts of a group that it shares with peers differ by more than open calls can explain."""
    own = _counts(flight)
    for name, count in own.items():
        others = [peer for peer in peers if name in _counts(peer)]
        if not others or (flight.groups[name].ranks is not None and len(flight.groups[name].ranks or ()) < 2):
            continue
        usual = median_low(_counts(peer)[name] for peer in others)
        slack = COUNT_SLACK + max(len(flight.pending), *(len(peer.pending) for peer in others))
        if abs(count - usual) > slack:
            return True
    return False


def _better(left: RankFlight, right: RankFlight, notes: list[str]) -> RankFlight:
    """The one to believe of two dumps of one rank: the later; of the same moment the one that holds stacks."""
    if (left.last_ns or 0) != (right.last_ns or 0):
        late = left if (left.last_ns or 0) > (right.last_ns or 0) else right
        notes.append(f"rank {left.rank} has two dumps; the later, {Path(late.path).name}, is judged")
        return late
    has_stacks = any(call.frames for call in right.pending) or any(
        "frames" in part.entries[-1] for part in right.groups.values() if part.entries
    )
    return right if has_stacks else left


def newest_stacks(
    stacks: Sequence[ProcessStacks], written_ns: Mapping[str, int]
) -> tuple[list[ProcessStacks], tuple[str, ...]]:
    """(the stacks without those of a rank's earlier process, a line for each rank of which some were left out).

    `written_ns`: when each file was written. Children of a process that is left out go with it.
    """
    files: dict[int, dict[int, str]] = defaultdict(dict)
    for process in stacks:
        if process.rank is not None and process.pid is not None:
            files[process.rank].setdefault(process.pid, process.path)
    old: set[int] = set()
    notes = []
    for rank, by_pid in sorted(files.items()):
        if len(set(by_pid.values())) > 1:
            newest = max(by_pid, key=lambda pid: (written_ns.get(by_pid[pid], 0), by_pid[pid]))
            old |= by_pid.keys() - {newest}
            notes.append(f"rank {rank} has stacks of two processes; the newer, {Path(by_pid[newest]).name}, is judged")
    kept = [process for process in stacks if process.pid not in old and process.parent_pid not in old]
    return (kept, tuple(notes)) if old else (list(stacks), ())


def other_run_finding(flight: RankFlight, *, shown: str, is_judged: bool) -> Finding:
    """A warning (H160) about a dump that was set aside. `is_judged`: another dump of its rank is of this run."""
    what = "another dump of it is judged" if is_judged else "the rank counts as one without a dump"
    return hang_finding(
        "H160",
        f"{shown}: the calls of rank {flight.rank} in it are of another run; {what}",
        cause=Cause.NONE,
        severity=Severity.NOTICE if is_judged else Severity.WARNING,
        evidence=("they lie apart in time from those of its peers, and their counts do not fit together",),
        next_step="explain the dumps of each run by themselves; clear the dump folder before a start",
    )
