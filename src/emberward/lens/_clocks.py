"""How far the clocks of several hosts are apart, from the collectives that their ranks meet in. Pure.

[Note: aligned clocks]
In an all-reduce, a gather or scatter among all and a barrier nobody ends before the last has come. Each rank's end and
each other's begin bound the difference of their hosts' clocks from one side; the tightest bounds over all meetings and
over paths of hosts give an interval (Cristian 1989; shortest paths over differences: Cormen et al., chapter 24.4). Its
middle is the offset, half its width the error. A broadcast or a transfer bounds one side alone and is left out.

Clocks drift by some millionths, so that no one offset holds for long and bounds of a long time are narrower than it is
known. The meetings are taken in parts, and those whose bounds contradict each other are halved. A line leads from the
middle of one part to that of the next; its error is half a part's interval and what neighbours differ by, which is what
drift may have narrowed the interval by. Of a part alone it is the whole interval.
"""

import bisect
import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from emberward.events import Barrier, Collective, CollectiveOp, Event, Group
from emberward.lens._calls import RankCalls

_MEETS = frozenset(
    {CollectiveOp.ALL_REDUCE, CollectiveOp.ALL_GATHER, CollectiveOp.REDUCE_SCATTER, CollectiveOp.ALL_TO_ALL}
)
NUM_PARTS, MIN_MEETINGS = 16, 8
"""Parts of a run, and meetings of each at least."""
MAX_HALVED = 4
"""Times that a part is halved."""


class OnHost(Protocol):
    """A rank's calls, and its host's name."""

    @property
    def calls(self) -> RankCalls: ...
    @property
    def host(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class HostClock:
    """What is added to a host's times: offsets at moments of its clock, in order, and how far off they may be."""

    at_ns: tuple[int, ...]
    offset_ns: tuple[int, ...]
    error_ns: int

    def aligned_ns(self, at_ns: int) -> int:
        """The moment on the first host's clock."""
        if len(self.at_ns) == 1:
            return at_ns + self.offset_ns[0]
        index = min(max(bisect.bisect_left(self.at_ns, at_ns), 1), len(self.at_ns) - 1)
        begin, end = self.at_ns[index - 1], self.at_ns[index]
        share = (at_ns - begin) / (end - begin)
        return at_ns + round(self.offset_ns[index - 1] * (1 - share) + self.offset_ns[index] * share)

    def aligned(self, event: Event) -> Event:
        """The event at its time on the first host's clock."""
        issued, completed = (
            None if at is None else self.aligned_ns(at) for at in (event.issued_ns, event.completed_ns)
        )
        return replace(event, issued_ns=issued, completed_ns=completed)


@dataclass(frozen=True, slots=True)
class _End:
    host: str
    began_ns: int
    ended_ns: int


Meeting = tuple[_End, ...]


def clocks_of(ranks: Sequence[OnHost]) -> Mapping[str, HostClock] | None:
    """The clock of each host, the first rank's as it is. None where nothing ties one of them to the first."""
    hosts = list(dict.fromkeys(rank.host or "" for rank in ranks))
    met: dict[tuple[Group, int], list[_End]] = defaultdict(list)
    for rank in ranks:
        for event in rank.calls.events:
            number, body = rank.calls.sequences.get(event.ref), event.body
            is_met = isinstance(body, Barrier) or (isinstance(body, Collective) and body.op in _MEETS)
            if number is None or not is_met or event.issued_ns is None or event.completed_ns is None:
                continue
            assert isinstance(body, Barrier | Collective), "as was asked above"
            met[body.group, number].append(_End(rank.host or "", event.issued_ns, event.completed_ns))
    last: dict[Group, int] = defaultdict(int)
    for group, number in met:
        last[group] = max(last[group], number)
    order = sorted(met, key=lambda key: key[1] / max(last[key[0]], 1))
    meetings = [tuple(met[key]) for key in order if len({end.host for end in met[key]}) > 1]
    size = max(math.ceil(len(meetings) / NUM_PARTS), MIN_MEETINGS)
    parts = [
        part for at in range(0, len(meetings), size) for part in _parts(meetings[at : at + size], hosts, MAX_HALVED)
    ]
    return {host: _clock(host, parts) for host in hosts} if parts else None


Bounds = Mapping[str, tuple[float, float]]
"""By host the least and the greatest that may be added to its times."""
Part = tuple[Sequence[Meeting], Bounds]


def _parts(meetings: Sequence[Meeting], hosts: Sequence[str], depth: int) -> list[Part]:
    """The meetings in as few parts as have bounds that agree; none where a host is tied to the first by none."""
    bounds = _bounds(meetings, hosts)
    if any(math.isinf(least) or math.isinf(most) for least, most in bounds.values()):
        return []
    if all(least <= most for least, most in bounds.values()):
        return [(meetings, bounds)]
    if depth == 0 or len(meetings) < 2:
        return []
    middle = len(meetings) // 2
    return [part for half in (meetings[:middle], meetings[middle:]) for part in _parts(half, hosts, depth - 1)]


def _bounds(meetings: Sequence[Meeting], hosts: Sequence[str]) -> Bounds:
    most: dict[tuple[str, str], float] = defaultdict(lambda: math.inf)
    """By two hosts: what the second's clock needs more than the first's, at most."""
    for ends in meetings:
        for one, other in itertools.permutations(ends, 2):
            pair = one.host, other.host
            most[pair] = min(most[pair], one.ended_ns - other.began_ns)
    most |= {(host, host): 0.0 for host in hosts}
    for middle, begin, end in itertools.product(hosts, repeat=3):
        most[begin, end] = min(most[begin, end], most[begin, middle] + most[middle, end])
    return {host: (-most[host, hosts[0]], most[hosts[0], host]) for host in hosts}


def _clock(host: str, parts: Sequence[Part]) -> HostClock:
    found: list[tuple[int, float, float]] = []
    for meetings, bounds in parts:
        times = [end.began_ns for ends in meetings for end in ends if end.host == host]
        least, most = bounds[host]
        found.append(((min(times) + max(times)) // 2, (least + most) / 2, (most - least) / 2))
    # A part in which one host was hardly ever the last to come bounds little: its neighbours know better.
    usual = statistics.median(half for _, _, half in found)
    found = sorted(each for each in found if each[2] <= 2 * usual)
    changes = [abs(now[1] - before[1]) for before, now in itertools.pairwise(found)] or [found[0][2]]
    pairs = itertools.pairwise([changes[0], *changes, changes[-1]])
    errors = [half + max(pair) for (_, _, half), pair in zip(found, pairs, strict=False)]
    at_ns, offsets = [at for at, _, _ in found], [round(offset) for _, offset, _ in found]
    return HostClock(tuple(at_ns), tuple(offsets), math.ceil(max(errors)))
