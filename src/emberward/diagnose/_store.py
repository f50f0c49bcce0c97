"""A key of a store that nobody sets, and the rank that was to set it.

[Note: who was to set a key]
A store knows no ranks: who sets a key is the program's own agreement, which its past shows. The key before, for which
the same line waited, had setters: they were to set this one too, each of them where a counter needs all. At the first
key the peers show it: at the line that sets such keys each rank sets one for which another waits, and the odd rank's is
missing or has a name for which nobody waits. Who waits for a key itself is no culprit, but in a circle, where the fewer
are; and who asks before its turn: the rank that sets the key waits for it in a call that it made first in each earlier
round. Somebody is named only while all ranks wait or have ended: any rank that is free may set a key.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from emberward.diagnose._calls import Call, RankFlight, StoreCall
from emberward.diagnose._departures import are_alike, history
from emberward.diagnose._frames import Frame, LineOf, may_act
from emberward.diagnose._order import Newest, newest, rounds
from emberward.diagnose._program import callers, deciding, place_at
from emberward.diagnose._say import hang_finding, ranks_text, verb, waits
from emberward.diagnose._waits import Reading, class_of
from emberward.events import STUCK, WAITING, HostState
from emberward.findings import Cause, Certainty, Finding, Kind

MIN_SERVED = 2
"""Fewest ranks that show at which line each sets a key."""
_STILL = WAITING | {HostState.STORE_WAIT, HostState.EXIT}


@dataclass(frozen=True, slots=True)
class _Lack:
    """A key for which `waiting` wait and that `due` were to set, where `setting` was set before; by the past or not."""

    key: str
    waiting: frozenset[int]
    due: frozenset[int]
    setting: Frame
    before: str | None


def in_store(reading: Reading, flight: RankFlight | None) -> Reading:
    """The reading; of a rank that asks a store again and again, and sleeps between, that it waits for the store."""
    call = None if flight is None else waited_for(flight)
    if call is None or reading.kind in WAITING or not any(_is_in(frame, call.frame) for frame in reading.frames):
        return reading
    return replace(reading, kind=HostState.STORE_WAIT)


def waited_for(flight: RankFlight) -> StoreCall | None:
    """The call of a store in which a rank waits; None when it waits in none, or nobody knows."""
    return next((call for call in reversed(flight.store or ()) if call.is_waiting), None)


def _is_in(frame: Frame, other: Frame) -> bool:
    return (frame.file, frame.function.rpartition(".")[2]) == (other.file, other.function.rpartition(".")[2])


def store_findings(
    flights: Mapping[int, RankFlight], readings: Mapping[int, Reading], world: Collection[int], line_of: LineOf
) -> list[Finding]:
    """A finding (H134) for the ranks that were to set a key for which others wait. See [Note: who was to set a key]."""
    logs = {rank: flight.store for rank, flight in flights.items() if flight.store is not None}
    stuck = {rank: call for rank, flight in flights.items() if (call := waited_for(flight)) is not None}
    if not stuck or not set(world) <= set(logs):
        return []
    unseen = [rank for rank in world if rank not in readings and rank not in stuck and not flights[rank].pending]
    if unseen or any(_may_set(reading, line_of) for rank, reading in readings.items() if rank in world):
        return []
    found = []
    for lack in _roots(_lacks(stuck, logs)):
        early = {rank: head for rank in sorted(lack.waiting) if (head := _left_behind(rank, stuck, lack, flights))}
        found.append(_early(lack, early, stuck) if early else _finding(lack, logs, readings, line_of))
    return found


def _left_behind(
    rank: int, stuck: Mapping[int, StoreCall], lack: _Lack, flights: Mapping[int, RankFlight]
) -> Call | None:
    """The call in which a rank that was to set the key waits for this one, which always made it before it asked.

    None where there is none: then the key was to be set before that call.
    """
    asked = stuck[rank]
    for other in sorted(lack.due):
        head, own = flights[other].head, flights[rank]
        part = None if head is None or head.is_p2p else own.groups.get(head.group)
        if head is None or part is None or part.enqueued >= head.seq or asked.after is None:
            continue
        made = history(own)
        asks = [call.after or 0 for call in own.store or () if not call.is_set and call.frame == asked.frame]
        # Of older calls than those that are kept nothing is known.
        marks = [0, *asks] if made and made[0].record == 1 else [n for n in asks if made and n >= made[0].record]
        places = [(n, True, False) for n in marks]
        places += [(call.record, False, are_alike(call, head)) for call in made]
        counts = rounds(sorted(places), is_mark=lambda p: p[1], is_counted=lambda p: p[2], is_open=False)
        if newest(counts, least=1) is Newest.FEWER:
            return head
    return None


def _may_set(reading: Reading, line_of: LineOf) -> bool:
    """Whether the rank may set a key yet: its main thread is free, or one beside it that neither waits nor idles."""
    threads = [each for each in reading.process.threads if each is not reading.process.main and may_act(each.frames)]
    return reading.kind not in _STILL or any(class_of(each, line_of) not in WAITING | STUCK for each in threads)


def _lacks(stuck: Mapping[int, StoreCall], logs: Mapping[int, Sequence[StoreCall]]) -> list[_Lack]:
    setters: dict[str, dict[int, Frame]] = defaultdict(dict)
    waiters: dict[str, set[int]] = defaultdict(set)
    for rank, log in logs.items():
        for call in log:
            for key in call.keys if call.is_set else ():
                setters[key][rank] = call.frame
    for rank, call in stuck.items():
        for key in call.keys:
            waiters[key].add(rank)
    served: dict[Frame, tuple[dict[int, Frame], set[int]]] = {}
    found: dict[str, _Lack] = {}
    for rank, call in stuck.items():
        for n, key in enumerate(call.keys):
            if key in found or (key in setters and not call.asks):
                continue
            past = [c.keys[n] for c in logs[rank] if not c.is_set and c.frame == call.frame and len(c.keys) > n]
            before = next((old for old in reversed(past) if old != key and old in setters), None)
            if before is None and call.frame not in served:
                served[call.frame] = _served(call.frame, logs)
            known = setters[before] if before is not None else _odd(*served[call.frame], waiters[key])
            due = frozenset(known) - frozenset(setters.get(key, ()))
            waiting = frozenset(waiters[key]) - due
            if due and waiting:
                found[key] = _Lack(key, waiting, due, known[min(due)], before)
    return list(found.values())


def _served(line: Frame, logs: Mapping[int, Sequence[StoreCall]]) -> tuple[dict[int, Frame], set[int]]:
    """The ranks that set a key for which another waits, or waited, at a line, and where they set it; the others."""
    awaited: dict[str, set[int]] = defaultdict(set)
    for rank, log in logs.items():
        for call in log:
            for key in call.keys if not call.is_set and call.frame == line else ():
                awaited[key].add(rank)
    served = {
        rank: call.frame
        for rank, log in logs.items()
        for call in log
        if call.is_set and any(key in awaited and awaited[key] != {rank} for key in call.keys)
    }
    return served, set(logs) - set(served)


def _odd(served: Mapping[int, Frame], others: set[int], waiters: set[int]) -> dict[int, Frame]:
    """Of `others` those that were to set a key for `waiters`, while their peers each set one, and where those did."""
    rest = others - waiters or others
    if len(served) < MIN_SERVED or len(rest) >= len(served):
        return {}
    return dict.fromkeys(rest, served[min(served)])


def _roots(lacks: Sequence[_Lack]) -> list[_Lack]:
    """Those whose due ranks wait for no key that another was to set; in a circle the one with the fewest."""
    waiting = frozenset(rank for lack in lacks for rank in lack.waiting)
    roots = [lack for lack in lacks if not lack.due & waiting]
    if roots or not lacks:
        return roots
    fewest = min(len(lack.due) for lack in lacks)
    least = [lack for lack in lacks if len(lack.due) == fewest]
    return least[:1] if len({lack.due for lack in least}) == 1 else []


def _finding(
    lack: _Lack, logs: Mapping[int, Sequence[StoreCall]], readings: Mapping[int, Reading], line_of: LineOf
) -> Finding:
    ranks, waiting = sorted(lack.due), sorted(lack.waiting)
    waited = next(call for call in reversed(logs[waiting[0]]) if lack.key in call.keys and not call.is_set)
    site = _way_to(lack.setting, line_of).site
    evidence = [f"{waits(waiting)} for the key {lack.key} at {waited.frame.site}"]
    if lack.before is not None:
        evidence.append(f"the key before, {lack.before}, {ranks_text(ranks)} set at {lack.setting.site}")
    for rank in ranks[:4]:
        own = [call for call in logs[rank] if call.is_set]
        last = f"last set {own[-1].keys[-1]} at {own[-1].frame.site}" if own and own[-1].keys else "set no key"
        reading = readings.get(rank)
        evidence.append(f"rank {rank} {last}" + ("" if reading is None else f" and {reading.text}"))
    return hang_finding(
        "H134",
        f"{ranks_text(ranks)} did not set the key {lack.key}, for which {waits(waiting)} at {waited.frame.site}; "
        f"{verb(ranks, 'it was', 'they were')} to set it at {lack.setting.site}",
        cause=Cause.STORE_WAIT,
        certainty=Certainty.INFERRED if lack.before is None else Certainty.OBSERVED,
        ranks=ranks,
        waiting=waiting,
        site=site,
        evidence=evidence,
        ruled_out=("a busy rank: every rank waits or has ended",),
        next_step=f"read {site}: on {ranks_text(ranks)} it kept the key from being set, or gave it another name",
    )


def _early(lack: _Lack, early: Mapping[int, Call], stuck: Mapping[int, StoreCall]) -> Finding:
    ranks = sorted(early)
    head, at = early[ranks[0]], stuck[ranks[0]].frame.site
    return hang_finding(
        "H134",
        f"{ranks_text(ranks)} {verb(ranks, 'asks', 'ask')} for the key {lack.key} before its turn at {at}: "
        f"{ranks_text(lack.due)}, which {verb(lack.due, 'sets', 'set')} it at {lack.setting.site}, "
        f"{verb(lack.due, 'waits', 'wait')} in {head.text} at {head.site}",
        kind=Kind.DEADLOCK,
        cause=Cause.STORE_WAIT,
        certainty=Certainty.OBSERVED,
        ranks=ranks,
        waiting=sorted(lack.due),
        site=at,
        evidence=[f"in each earlier round {ranks_text(ranks)} made that {head.op} before asking for a key there"],
        ruled_out=("a busy rank: every rank waits or has ended",),
        next_step=f"read {at}: what made {ranks_text(ranks)} ask there in this round",
    )


def _way_to(setting: Frame, line_of: LineOf) -> Frame:
    """The one condition on the way to the line that sets the key; that line where there is none, or several are."""
    for at in callers(place_at(setting, line_of)).values():
        found = deciding(at.turn) if at.home is not None or at.loops else []
        if found:
            return replace(setting, line=found[0]) if len(found) == 1 else setting
    return setting
