"""The calls of a rank as its ring keeps them: when each was issued, ended, and blocked its thread. Pure.

A call of a group ends no later than those after it, for a group does them in order: where an end is only seen when
somebody waits for it, that of a later call bounds it.
"""

import bisect
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from emberward.events import ITEM_BYTES, Barrier, Collective, Event, Group, Lane, LaneKind, Recv, Ref, Send, Wait

Line = tuple[str, int]
OF_BACKWARD = 1_000_000
"""Index of the group of the meetings of the backward, which torch has none of. See `_backward.py`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankCalls:
    """The calls of one rank, as its ring keeps them, and each collective's number in its group.

    `is_complete`: the first call is still there.
    """

    rank: int
    events: tuple[Event, ...]
    sequences: Mapping[Ref, int]
    is_complete: bool = True

    @property
    def begin_s(self) -> float:
        """Since when all its calls are known."""
        return -math.inf if self.is_complete else min((each.issued_ns or 0 for each in self.events), default=0) / 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A collective on one rank, in seconds of the host's clock. It blocks its rank from `blocked_s` to `free_s`.

    Or one end of a transfer between two ranks, `is_transfer`, whose group is the sender and the receiver, in order.
    """

    rank: int
    lane: Lane
    group: Group
    number: int
    op: str
    num_bytes: int
    issued_s: float
    ended_s: float
    blocked_s: float
    free_s: float
    file: str
    line: int
    wait_line: int
    wait_file: str = ""
    is_transfer: bool = False

    @property
    def lane_name(self) -> str:
        """Its group's, or sender and receiver: ``0>1``."""
        return ">".join(map(str, self.group.ranks)) if self.is_transfer else str(self.group)

    @property
    def blocks(self) -> bool:
        """Whether the training thread stands in the call itself."""
        return self.lane.kind is LaneKind.HOST and self.lane.index == 0 and self.blocked_s == self.issued_s


def calls_of(rank: RankCalls) -> tuple[Call, ...]:
    """The rank's finished collectives and transfers, in order. One whose end nobody asked for ends by the next's.

    A wait of a device's stream holds no thread: that of the host counts alone.
    """
    waits = {
        event.body.on: event
        for event in rank.events
        if isinstance(event.body, Wait) and event.lane.kind is LaneKind.HOST
    }
    found = [
        call
        for event in rank.events
        if isinstance(event.body, Collective | Barrier | Send | Recv) and event.site is not None
        if (call := _call_of(rank, event, event.body, waits.get(event.ref))) is not None
    ]
    first_end: dict[Group, float] = {}
    for index, call in sorted(enumerate(found), key=lambda each: -each[1].number):
        ended_s = min(call.ended_s, max(first_end.get(call.group, call.ended_s), call.issued_s))
        first_end[call.group] = ended_s
        blocked_s, free_s = (ended_s if each == math.inf else each for each in (call.blocked_s, call.free_s))
        found[index] = replace(call, ended_s=ended_s, blocked_s=blocked_s, free_s=free_s)
    return tuple(call for call in found if call.ended_s < math.inf)


def _call_of(
    rank: RankCalls, event: Event, body: Collective | Barrier | Send | Recv, wait: Event | None
) -> Call | None:
    number, site = rank.sequences.get(event.ref), event.site
    if number is None or site is None or event.issued_ns is None:
        return None
    issued, ended = event.issued_ns / 1e9, math.inf if event.completed_ns is None else event.completed_ns / 1e9
    blocked, free = (issued, ended) if event.lane.kind is LaneKind.HOST else (ended, ended)
    at = site
    if wait is not None and wait.issued_ns is not None and wait.completed_ns is not None:
        blocked, free = wait.issued_ns / 1e9, wait.completed_ns / 1e9
        at = wait.site or site
    match body:
        case Collective() | Barrier():
            group, op = body.group, body.op.value if isinstance(body, Collective) else "barrier"
        case Send():
            group, op = Group(ranks=(rank.rank, body.peer), index=_TRANSFERS + (body.tag or 0)), "send"
        case Recv():
            group, op = Group(ranks=(body.peer, rank.rank), index=_TRANSFERS + (body.tag or 0)), "recv"
    return Call(
        rank=rank.rank,
        lane=event.lane,
        group=group,
        number=number,
        op=op,
        num_bytes=_bytes_of(body),
        issued_s=issued,
        ended_s=min(ended, free) if free > issued else ended,
        blocked_s=blocked,
        free_s=free,
        file=site.file,
        line=site.line,
        wait_line=at.line,
        wait_file=at.file,
        is_transfer=isinstance(body, Send | Recv),
    )


_TRANSFERS = 2_000_000
"""Index from which on the groups of transfers lie, which torch has none of: by their tag."""


def _bytes_of(body: Collective | Barrier | Send | Recv) -> int:
    if isinstance(body, Barrier) or body.numel is None:
        return 0
    return body.numel * ITEM_BYTES.get(body.dtype or "", 4)


def turns_of(calls: Iterable[Call], bounds_s: Sequence[float]) -> dict[tuple[Group, int], int]:
    """For each call which of its line's calls in its step it is, from 0 on."""
    seen: dict[tuple[Line, int], int] = defaultdict(int)
    found: dict[tuple[Group, int], int] = {}
    for call in sorted(calls, key=lambda call: call.issued_s):
        step = (call.file, call.line), bisect.bisect_right(bounds_s, call.issued_s)
        found[call.group, call.number] = seen[step]
        seen[step] += 1
    return found
