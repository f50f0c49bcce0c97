"""How much earlier a collective could be issued and how much later waited for, by what happens to its memory. Pure.

[Note: what could hide a call]
A call can be issued once the last operation that writes what it reads, or uses what it writes, has ended, and has to be
waited for before the first one that uses what it wrote or writes what it read: wherever in the program these stand, in
a hook, a helper or another step. What lies between, the calls in which the thread is blocked left out, is the time that
could hide it. Operations that only pack or unpack move with the call, and their own time hides nothing.

A line of a program can be moved, the inside of a backward cannot: for a call outside of it everything in a backward
happens at its end, or, where the result is used there, at its begin. A call whose result nobody is seen to use tells of
no later wait: its reader may be no operation of torch's.
"""

import bisect
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from emberward.lens._operations import Access, Issue, RankOperations
from emberward.lens._overlap import Call

MAX_PACKED = 4
"""Packs that are followed into one another."""
Line = tuple[str, int]


def slack_of(rank: RankOperations, calls: Sequence[Call]) -> Mapping[Line, tuple[float, float]]:
    """By file and line of the program's own calls: seconds a step by which they could be issued earlier and waited for
    later. See [Note: what could hide a call]."""
    found: dict[Line, list[float]] = defaultdict(lambda: [0.0, 0.0])
    known = sorted((call for call in calls if call.file), key=lambda call: call.issued_s)
    begins = [call.issued_s for call in known]
    memory = _Memory(rank, [(call.blocked_s, call.free_s) for call in known])
    for issue in rank.issues:
        index = bisect.bisect_right(begins, issue.began_s) - 1
        if index < 0 or known[index].ended_s < issue.began_s or not rank.num_steps:
            continue
        call = known[index]
        slack = found[call.file, call.line]
        slack[0] += memory.earlier_s(issue) / rank.num_steps
        slack[1] += memory.later_s(issue, call.free_s) / rank.num_steps
    return {line: (before, after) for line, (before, after) in found.items()}


@dataclass(frozen=True, slots=True)
class _At:
    """A moment, and the seconds of packs that move with the call up to it."""

    at_s: float
    packed_s: float = 0.0


class _Memory:
    """The accesses to each memory in order."""

    def __init__(self, rank: RankOperations, blocked: Sequence[tuple[float, float]]) -> None:
        self._begin_s = rank.bounds_s[0] if rank.bounds_s else 0.0
        self._blocked = blocked
        self._of: dict[int, list[Access]] = defaultdict(list)
        for access in rank.accesses:
            for number in access.reads | access.writes:
                self._of[number].append(access)

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
        return 0.0 if needed.at_s == math.inf else self._own_s(free_s, needed.at_s, needed.packed_s)

    def _own_s(self, begin_s: float, end_s: float, packed_s: float) -> float:
        """Seconds between in which the thread is blocked in no call and packs nothing."""
        blocked_s = sum(max(min(b, end_s) - max(a, begin_s), 0.0) for a, b in self._blocked)
        return max(end_s - begin_s - blocked_s - packed_s, 0.0)

    def _ready(self, number: int, before_s: float, issue: Issue, *, is_read: bool, depth: int) -> _At:
        """When the last write to it before a moment has ended; `is_read`: or the last use. Packs are followed back."""
        ready_s, packed_s = -math.inf, 0.0
        for access in reversed(self._of[number]):
            if access.ended_s > before_s or not (is_read or number in access.writes):
                continue
            if access.backward is not None and access.backward != issue.backward:
                return _At(max(ready_s, access.backward[1]), packed_s)
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
            for other in access.writes - access.reads:
                at = self._needed(other, access.ended_s, issue, is_read=True, depth=depth + 1)
                # What is packed and then not seen again may be read by anybody.
                at = _At(access.began_s if at.at_s == math.inf else at.at_s, at.packed_s + took_s)
                needed = min(needed, at, key=lambda each: each.at_s)
        return needed
