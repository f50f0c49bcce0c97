"""How much earlier a collective could be issued and how much later waited for, by what happens to its memory. Pure.

[Note: what could hide a call]
A call can be issued once the last operation that writes what it reads, or uses what it writes, has ended, and has to be
waited for before the first one that uses what it wrote or writes what it read: wherever in the program these stand, in
a hook, a helper or another step. What lies between, the calls in which the thread is blocked left out, is the time that
could hide it. Operations that only pack or unpack move with the call: neither their own time hides anything nor what
the host takes from one to the next of the same memory.

What a backward writes for a call after it is a gradient, and a hook of that gradient can issue the call. What a
backward uses of a call before it is needed at the backward's begin, for no line of the program stands inside. A call
whose result nobody is seen to use tells of no later wait: its reader may be no operation of torch's.
"""

import bisect
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from emberward.events import Group
from emberward.lens._calls import Call, Line, turns_of
from emberward.lens._operations import Access, Issue, RankOperations
from emberward.lens._overlap import Slack
from emberward.lens._samples import USER, RankSamples

Place = tuple[int, ...]
"""The lines at which the functions of the loop stand, the outermost first."""
MAX_PACKED = 4
"""Packs that are followed into one another."""


def slack_of(rank: RankOperations, calls: Sequence[Call]) -> Mapping[Line, Sequence[Slack]]:
    """By file and line of the program's own calls, for the first of a step, the second and so on: its mean slack.

    See [Note: what could hide a call].
    """
    inside = _asked(rank, calls)
    memory = _Memory(rank, [(call.blocked_s, call.free_s) for call in calls if call.file])
    turns = turns_of([call for call, _ in inside], rank.bounds_s)
    found: dict[Line, dict[int, list[Slack]]] = defaultdict(lambda: defaultdict(list))
    for call, issue in inside:
        slack = memory.earlier_s(issue), memory.later_s(issue, call.free_s)
        found[call.file, call.line][turns[call.group, call.number]].append(slack)
    return {line: [_mean(by_turn[turn]) for turn in sorted(by_turn)] for line, by_turn in found.items()}


def repeats_of(rank: RankOperations, calls: Sequence[Call], samples: RankSamples | None = None) -> tuple[Call, ...]:
    """The gathers of what the same group has gathered before in the same turn, and nobody has changed in between.

    `samples` tell where the program's own loop turns: what its last turn has gathered after the update, this one is
    not held to keep, and what it gathered before the update is there after it. A call where the one before was, with an
    update in between, is of the next turn.
    """
    memory = _Memory(rank, ())
    asked = _asked(rank, calls)
    places = {} if samples is None else _places(samples, calls)
    turns = turns_of([call for call, _ in asked], rank.bounds_s)
    seen: set[tuple[Group, int, frozenset[Written]]] = set()
    before: tuple[Place, int] = (), 0
    again = []
    for call, issue in asked:
        given = frozenset(each for number in issue.given for each in memory.written(number, issue.began_s))
        if not call.op.startswith("all_gather") or not given or issue.given & issue.gotten:
            continue
        here = (
            places.get(((call.file, call.line), turns[call.group, call.number]), ()),
            bisect.bisect_right(rank.bounds_s, issue.began_s),
        )
        if here[0] < before[0] or (here[0] == before[0] and here[1] > before[1]):
            seen.clear()
        if (key := (call.group, call.num_bytes, given)) in seen:
            again.append(call)
        seen.add(key)
        before = here
    return tuple(again)


def _places(rank: RankSamples, calls: Sequence[Call]) -> dict[tuple[Line, int], Place]:
    """Where the loop stands in the calls of a line, the first of a step, the second and so on, as most steps show."""
    begin_s, end_s = (rank.bounds_s[0], rank.bounds_s[-1]) if rank.bounds_s else (0.0, 0.0)
    inside = sorted((c for c in calls if begin_s <= c.issued_s <= end_s), key=lambda call: call.issued_s)
    begins, turns = [call.issued_s for call in inside], turns_of(inside, rank.bounds_s)
    found: dict[tuple[Line, int], Counter[Place]] = defaultdict(Counter)
    for sampled in rank.stacks:
        line = next(((place.file, place.line) for place in sampled.stack if place.owner == USER), None)
        for at_s in sampled.at_s.values():
            call = inside[max(bisect.bisect_right(begins, at_s) - 1, 0)] if inside else None
            if call is None or line != (call.file, call.line) or at_s > call.free_s:
                continue
            place = tuple(each.line for each, _ in zip(reversed(sampled.stack), rank.loop, strict=False))
            found[(call.file, call.line), turns[call.group, call.number]][place] += 1
    return {key: places.most_common(1)[0][0] for key, places in found.items()}


def unread_of(rank: RankOperations, calls: Sequence[Call]) -> frozenset[Line]:
    """The lines whose calls write what no operation of the observed steps reads, copies followed."""
    memory = _Memory(rank, ())
    asked = [(call, issue) for call, issue in _asked(rank, calls) if issue.gotten and call.op != "barrier"]
    read = {(call.file, call.line) for call, issue in asked if memory.is_read(issue)}
    return frozenset((call.file, call.line) for call, _ in asked) - read


def _asked(rank: RankOperations, calls: Sequence[Call]) -> list[tuple[Call, Issue]]:
    """The collectives that the program asked for in the observed steps, each with its call."""
    known = sorted((call for call in calls if call.file), key=lambda call: call.issued_s)
    begins = [call.issued_s for call in known]
    found = []
    for issue in rank.issues:
        index = bisect.bisect_right(begins, issue.began_s) - 1
        if index >= 0 and known[index].ended_s >= issue.began_s:
            found.append((known[index], issue))
    return found


def _mean(slacks: Sequence[Slack]) -> Slack:
    return statistics.fmean(before for before, _ in slacks), statistics.fmean(after for _, after in slacks)


Written = tuple[int, float]
"""A memory and when it was written."""


@dataclass(frozen=True, slots=True)
class _At:
    """A moment, and the seconds of packs that move with the call up to it."""

    at_s: float
    packed_s: float = 0.0


class _Memory:
    """The accesses to each memory in order."""

    def __init__(self, rank: RankOperations, blocked: Sequence[tuple[float, float]]) -> None:
        self._begin_s, self._end_s = (rank.bounds_s[0], rank.bounds_s[-1]) if rank.bounds_s else (0.0, 0.0)
        self._blocked = blocked
        self._of: dict[int, list[Access]] = defaultdict(list)
        for access in rank.accesses:
            for number in access.reads | access.writes:
                self._of[number].append(access)
        self._packs = sorted((each for each in rank.accesses if each.is_pack), key=lambda each: each.began_s)
        self._work_s = sorted(each.began_s for each in rank.accesses if not each.is_pack)
        self._issues = rank.issues
        self._gotten: dict[int, list[float]] = defaultdict(list)
        for issue in rank.issues:
            for number in issue.gotten:
                self._gotten[number].append(issue.began_s)

    def written(self, number: int, before_s: float, depth: int = 0) -> frozenset[Written]:
        """Which memory has its numbers, and when they were written; copies are followed back."""
        got_s = max((at_s for at_s in self._gotten.get(number, ()) if at_s < before_s), default=-math.inf)
        for access in reversed(self._of[number]):
            if access.ended_s > before_s or number not in access.writes or access.ended_s < got_s:
                continue
            sources = access.reads - access.writes
            if not access.is_copy or not sources or depth == MAX_PACKED:
                return frozenset({(number, access.began_s)})
            return frozenset().union(*(self.written(each, access.began_s, depth + 1) for each in sources))
        return frozenset({(number, got_s)})

    def is_read(self, issue: Issue) -> bool:
        """Whether an operation, or another call, reads what the call wrote."""
        others = {number for each in self._issues if each is not issue for number in each.given}
        return bool(issue.gotten & others) or any(self._is_read(each, issue.began_s, 0) for each in issue.gotten)

    def _is_read(self, number: int, after_s: float, depth: int) -> bool:
        for access in self._of[number]:
            if access.began_s < after_s or number not in access.reads:
                continue
            copies = access.writes - access.reads
            if not access.is_copy or not copies or depth == MAX_PACKED:
                return True
            if any(self._is_read(each, access.began_s, depth + 1) for each in copies):
                return True
        return False

    def earlier_s(self, issue: Issue) -> float:
        """Seconds by which it could be issued earlier."""
        at = [self._ready(number, issue.began_s, issue, is_read=False, depth=0) for number in issue.given]
        at += [self._ready(number, issue.began_s, issue, is_read=True, depth=0) for number in issue.gotten]
        ready_s = max((each.at_s for each in at), default=issue.began_s)
        return self._own_s(max(ready_s, self._begin_s), issue.began_s, sum(each.packed_s for each in at))

    def later_s(self, issue: Issue, free_s: float) -> float:
        """Seconds by which its wait, which ended at `free_s`, could be later."""
        at = [self._needed(number, free_s, issue, is_read=True, depth=0) for number in issue.gotten]
        at += [self._needed(number, free_s, issue, is_read=False, depth=0) for number in issue.given - issue.gotten]
        needed = min(at, key=lambda each: each.at_s, default=_At(free_s))
        if needed.at_s == math.inf:
            return 0.0 if issue.gotten else self._own_s(free_s, self._end_s, 0.0)  # Of a send nobody uses a result.
        return self._own_s(free_s, needed.at_s, needed.packed_s)

    def _own_s(self, begin_s: float, end_s: float, packed_s: float) -> float:
        """Seconds between in which the thread is blocked in no call and packs nothing."""
        blocked_s = sum(max(min(b, end_s) - max(a, begin_s), 0.0) for a, b in self._blocked)
        # Its own packs, and those of what else was packed into the call, with the host's turns from one to the next.
        packs_s, done_s, before = 0.0, begin_s, None
        first = bisect.bisect_left(self._packs, begin_s, key=lambda each: each.began_s)
        for pack in islice(self._packs, first, None):
            if pack.began_s >= end_s:
                break
            is_next = before is not None and self._is_next(before, pack)
            packs_s += max(min(pack.ended_s, end_s) - (done_s if is_next else max(pack.began_s, done_s)), 0.0)
            done_s, before = max(done_s, pack.ended_s), pack
        return max(end_s - begin_s - blocked_s - max(packs_s, packed_s), 0.0)

    def _is_next(self, before: Access, pack: Access) -> bool:
        """Whether both pack into the same memory, or out of it, and no other operation stands between."""
        work = bisect.bisect_left(self._work_s, before.began_s), bisect.bisect_left(self._work_s, pack.began_s)
        return work[0] == work[1] and bool(before.reads & pack.reads or before.writes & pack.writes)

    def _ready(self, number: int, before_s: float, issue: Issue, *, is_read: bool, depth: int) -> _At:
        """When the last write to it before a moment has ended; `is_read`: or the last use. Packs are followed back."""
        ready_s, packed_s = -math.inf, 0.0
        for access in reversed(self._of[number]):
            if access.ended_s > before_s or not (is_read or number in access.writes):
                continue
            if not access.is_pack or number not in access.writes or depth == MAX_PACKED:
                return _At(max(ready_s, access.ended_s), packed_s)
            packed_s += access.ended_s - access.began_s
            for other in access.reads - access.writes:
                at = self._ready(other, access.began_s, issue, is_read=False, depth=depth + 1)
                ready_s, packed_s = max(ready_s, at.at_s), packed_s + at.packed_s
        return _At(ready_s, packed_s)

    def _needed(self, number: int, after_s: float, issue: Issue, *, is_read: bool, depth: int) -> _At:
        """When it is first written after a moment; `is_read`: or used. Packs are followed on."""
        needed = _At(math.inf)
        for access in self._of[number]:
            if access.began_s < after_s or not (is_read or number in access.writes):
                continue
            if access.backward is not None and access.backward != issue.backward:
                return min(needed, _At(max(access.backward[0], after_s)), key=lambda each: each.at_s)
            if not access.is_pack or number not in access.reads or depth == MAX_PACKED:
                return min(needed, _At(access.began_s), key=lambda each: each.at_s)
            took_s = access.ended_s - access.began_s
            for other in access.writes - {number}:
                at = self._needed(other, access.ended_s, issue, is_read=True, depth=depth + 1)
                # What is packed and then not seen again may be read by anybody.
                at = _At(access.began_s if at.at_s == math.inf else at.at_s, at.packed_s + took_s)
                needed = min(needed, at, key=lambda each: each.at_s)
        return needed
