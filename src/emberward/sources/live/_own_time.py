"""What of each step a rank spent outside of calls, by its ring. Pure.

[Note: own time]
Steps are those that the program's optimizer ends, where one does; else a step is what lies between two collectives
that follow each other in the job's largest group. Own time is the step less what the main thread spent in calls and
waits. DDP makes its calls below Python, inside of backward and where it broadcasts its buffers: where torch counts
calls of which the ring knows nothing, the whole of both counts as waiting. So a rank whose backward alone is slow is
not told from its peers there.

Where the device has told its times ([Note: ends on a device] of `sources._ends`), a step is the device's: from the end
of the last call of the step before, in the job's largest group, to that of its own, and own time is that less what
the device's stream stood in calls, or in waits for calls made before. What its host did meanwhile is nobody's lateness
unless the device had to wait for it; then it comes late to the next call.

Ranks are compared that make the same calls: the stages of a pipeline do different work by plan.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from emberward.events import Barrier, Collective, Event, Group, HostSync, LaneKind, Recv, Send, Wait
from emberward.sources.ring import Mark, MarkKind, RingView

NS = 1e9
NUM_SIGNED = 8
"""Newest steps whose calls say which program a rank runs."""

_WAITS = frozenset({MarkKind.BACKWARD, MarkKind.BUFFERS})
Span = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnStep:
    """One step of one rank: its length and the rank's own part in seconds, and when it was on the rank's own clock."""

    number: int
    length_s: float
    own_s: float
    began_ns: int
    ended_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTimes:
    """The steps that a ring tells of. `program` is equal for ranks that make the same calls in a step."""

    is_by_step: bool
    steps: tuple[OwnStep, ...]
    program: tuple[tuple[str, int], ...]


def own_times(view: RingView, *, after: int | None = None) -> OwnTimes:
    """The rank's own part of each step that the view holds whole, of those after step `after`. See [Note: own time]."""
    events = [e for e in view.events if e.lane.kind is LaneKind.HOST and e.lane.index == 0]
    moments = [m for m in view.marks if m.kind is MarkKind.STEP and m.step is not None and m.ended_ns is not None]
    is_by_step, timed = len(moments) >= 2, [e for e in view.events if e.started_ns is not None]
    if timed:
        spans = _merged(list(_stalls(timed)))
        bounds = list(_device_rounds(view, timed, is_by_step=is_by_step))
    elif is_by_step:
        # A step's number is that of its mark; the first has no begin.
        bounds = [(m.step, m.began_ns, m.ended_ns) for m in moments if m.step is not None and m.ended_ns is not None]
        spans = _merged([*_calls(events), *_hidden(view)])
    else:
        bounds, spans = list(_rounds(view, events)), _merged([*_calls(events), *_hidden(view)])
    # Steps that began before the first call of the view made calls of which it tells nothing.
    first = min((e.started_ns or e.issued_ns or 0 for e in timed or events if e.issued_ns is not None), default=0)
    ends = [end for _, end in spans]
    steps = []
    for number, low, high in bounds:
        if high <= low or low < first or (after is not None and number <= after):
            continue
        inside = 0
        for begin, end in spans[bisect_right(ends, low) :]:
            if begin >= high:
                break
            inside += min(end, high) - max(begin, low)
        steps.append(
            OwnStep(
                number=number,
                length_s=(high - low) / NS,
                own_s=(high - low - inside) / NS,
                began_ns=low,
                ended_ns=high,
            )
        )
    last = [(step.began_ns, step.ended_ns) for step in steps[-NUM_SIGNED:]]
    return OwnTimes(is_by_step=is_by_step, steps=tuple(steps), program=_program(view.events, last))


def _calls(events: Sequence[Event]) -> Iterator[Span]:
    for event in events:
        if event.issued_ns is not None and event.completed_ns is not None:
            yield event.issued_ns, event.completed_ns


def _stalls(timed: Sequence[Event]) -> Iterator[Span]:
    """When the device's stream stood: in a call that it was made to wait for at once, or in a wait of its own."""
    waits = {event.body.on: event for event in timed if isinstance(event.body, Wait)}
    for event in timed:
        is_stall = isinstance(event.body, Wait) or event.ref not in waits
        if is_stall and event.started_ns is not None and event.completed_ns is not None:
            yield event.started_ns, event.completed_ns


def _device_rounds(view: RingView, timed: Sequence[Event], *, is_by_step: bool) -> Iterator[tuple[int, int, int]]:
    """From the end of the last call of a step on the device to the end of the next's; without steps, of each call."""
    found: dict[Group, dict[int, int]] = {}
    for event in timed:
        number = event.phase.step if is_by_step else view.sequences.get(event.ref)
        if isinstance(event.body, Collective | Barrier) and number is not None and event.completed_ns is not None:
            ends = found.setdefault(event.body.group, {})
            ends[number] = max(event.completed_ns, ends.get(number, 0))
    if not found:
        return
    ends = found[max(found, key=lambda group: (len(group.ranks), len(found[group]), group.index))]
    # The last step of the view may not have made all of its calls.
    numbers = sorted(ends)[:-1] if is_by_step else sorted(ends)
    for early, late in pairwise(numbers):
        if late == early + 1:
            yield late, ends[early], ends[late]


def _hidden(view: RingView) -> Iterator[Span]:
    """Stretches in which calls below Python are made."""
    if any(count.sequence is not None and count.sequence > count.issued for count in view.groups.values()):
        for mark in view.marks:
            if mark.kind in _WAITS and mark.thread == 0 and mark.ended_ns is not None:
                yield mark.began_ns, mark.ended_ns


def _merged(spans: Sequence[Span]) -> list[Span]:
    out: list[Span] = []
    for begin, end in sorted(spans):
        if out and begin <= out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((begin, end))
    return out


def _rounds(view: RingView, events: Sequence[Event]) -> Iterator[tuple[int, int, int]]:
    """What lies between two collectives of the largest group, numbered by the later one.

    Where a device does them (the main thread waits for it and for none of them), between the moments of their launch.
    """
    found: dict[Group, list[tuple[int, int, int]]] = {}
    is_device = any(isinstance(event.body, HostSync) for event in events)
    for event in view.events if is_device else events:
        number = view.sequences.get(event.ref)
        ended = event.issued_ns if is_device and event.lane.kind is not LaneKind.HOST else event.completed_ns
        if isinstance(event.body, Collective | Barrier) and number is not None and event.issued_ns and ended:
            found.setdefault(event.body.group, []).append((number, event.issued_ns, ended))
    if not found:
        return
    largest = max(found, key=lambda group: (len(group.ranks), len(found[group]), group.index))
    for (early, _, done), (late, _, end) in pairwise(found[largest]):
        if late == early + 1:
            yield late, done, end


def _program(events: Sequence[Event], steps: Sequence[Span]) -> tuple[tuple[str, int], ...]:
    """The calls of an ordinary step, counted: the most frequent such count of the given steps."""
    counts: Counter[tuple[tuple[str, int], ...]] = Counter()
    for low, high in steps:
        inside = Counter(
            _word(e) for e in events if e.issued_ns is not None and low <= e.issued_ns < high and _word(e) is not None
        )
        counts[tuple(sorted((word, number) for word, number in inside.items() if word is not None))] += 1
    return counts.most_common(1)[0][0] if counts else ()


def _word(event: Event) -> str | None:
    body = event.body
    if isinstance(body, Collective):
        return f"{body.op.value} {len(body.group.ranks)} {body.numel}"
    if isinstance(body, Send | Recv):
        return f"{type(body).__name__} {body.numel}"
    return None


def main_marks(view: RingView, low: int, high: int) -> list[Mark]:
    """The main thread's stretches with a name that lie in this time, steps and backward left out."""
    return [
        mark
        for mark in view.marks
        if mark.thread == 0
        and mark.kind not in (MarkKind.STEP, MarkKind.BACKWARD, MarkKind.OPTIMIZER)
        and mark.ended_ns is not None
        and mark.ended_ns > mark.began_ns
        and mark.began_ns >= low
        and mark.ended_ns <= high
    ]


def marked_s(view: Mapping[int, RingView], rank: int, low: int, high: int) -> dict[tuple[str, str | None], float]:
    """Kind and line -> seconds that the rank's marks cover in this time."""
    found: dict[tuple[str, str | None], float] = {}
    for mark in main_marks(view[rank], low, high):
        assert mark.ended_ns is not None
        key = (mark.kind.value, None if mark.site is None else str(mark.site))
        found[key] = found.get(key, 0.0) + (mark.ended_ns - mark.began_ns) / NS
    return found
