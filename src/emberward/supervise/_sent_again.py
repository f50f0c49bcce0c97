"""The share of what this host sends to each other one that gets lost on the way, as its kernel counts it.

[Note: whose segments]
Two kinds of traffic tell: the loads with which hosts try each other, and the connections of the job itself, whose
counters are read once a second. A second in which fewer than LEAST_SEGMENTS went to a host is counted with the next
one. Of the last KEPT_S half of these parts agree on the share: a part that met a full queue is no link that loses
packets.
"""

import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass

from emberward.supervise._connections import Connection, Counts

KEPT_S = 32.0
"""Of this time what was sent counts, and how long a load took. See `_probe.py`."""
MIN_PARTS = 6
LEAST_SEGMENTS = 180
"""A load of 256 KiB. Of 1% such a part shows a loss with a probability of 84%."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """Segments with data that were sent, and how many of them were sent again."""

    segments: int
    again: int
    at_s: float
    """When, by this process's monotonic clock."""


class SentAgain:
    """Keeps what was sent, by the other side's address. See [Note: whose segments]."""

    def __init__(self) -> None:
        self._parts: dict[str, tuple[Sent, ...]] = {}
        self._open: dict[str, Counts] = {}
        self._last: dict[int, Counts] = {}

    def take(self, address: str, *sent: Sent) -> None:
        """Takes up what was sent to the other side's address."""
        self._parts[address] = (*_kept(self._parts.get(address, ())), *sent)

    def count(self, connections: Iterable[Connection], *, now_s: float) -> None:
        """Takes up what these connections sent since the last snapshot; one that is new has sent nothing yet."""
        seen: dict[int, Counts] = {}
        for each in connections:
            seen[each.cookie] = each.counts
            before = self._last.get(each.cookie, each.counts)
            so_far = self._open.get(each.peer, Counts(segments=0, again=0))
            self._open[each.peer] = Counts(
                segments=so_far.segments + each.counts.segments - before.segments,
                again=so_far.again + max(each.counts.again - before.again, 0),
            )
        self._last = seen
        for address, counts in list(self._open.items()):
            if counts.segments >= LEAST_SEGMENTS:
                self.take(address, Sent(segments=counts.segments, again=counts.again, at_s=now_s))
                del self._open[address]

    def shares(self) -> dict[str, float]:
        """By the other side's address, the share of segments that half of the parts of the last KEPT_S lost at least.

        Where there are MIN_PARTS.
        """
        kept = {address: _kept(sent) for address, sent in sorted(self._parts.items())}
        return {
            address: statistics.median_low(each.again / max(each.segments, 1) for each in sent)
            for address, sent in kept.items()
            if len(sent) >= MIN_PARTS
        }


def _kept(sent: tuple[Sent, ...]) -> tuple[Sent, ...]:
    since_s = time.monotonic() - KEPT_S
    return tuple(each for each in sent if each.at_s >= since_s)
