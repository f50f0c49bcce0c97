"""What of each step a rank spent outside of calls, by its ring. Pure.

[Note: own time]
Steps are those that the program's optimizer ends, where one does; else a step is what lies between two collectives
that follow each other in the job's largest group. Own time is the step less what the main thread spent in calls and
waits. DDP makes its calls below Python, inside of backward and where it broadcasts its buffers: where torch counts
calls of which the ring knows nothing, the whole of both counts as waiting. So a rank whose backward alone is slow is
not told from its peers there.

Where the device has told its times ([Note: ends on a device] of `sources._ends`), a rank's own part is the longer of
its host's and its device's. The device's is what its stream did between two stalls, in calls or in waits for them, if
it was still busy when the host had made the later one; else it waited for its host, whose part counts. Who comes last
to a call is not asked: after one long pause the other hosts are ahead, and that rank comes last for ever at equal
speed. A step is judged when the device has told of a later call.

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
MIN_BUSY_S = 0.001
"""What the device has still to do when the host has made a call, for it to be busy."""
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
    spans = _merged([*_calls(events), *_hidden(view)])
    moments = [m for m in view.marks if m.kind is MarkKind.STEP and m.step is not None and m.ended_ns is not None]
    is_by_step = len(moments) >= 2
    if is_by_step:
        # A step's number is that of its mark; the first has no begin.
        bounds = [(m.step, m.began_ns, m.ended_ns) for m in moments if m.step is not None and m.ended_ns is not None]
    else:
        bounds = list(_rounds(view, events))
    # Steps that began before the first call of the view made calls of which it tells nothing.
    first = min((e.issued_ns for e in events if e.issued_ns is not None), default=0)
    ends = [end for _, end in spans]
    device = _device_work(view.events)
    given = [at for at, _ in device]
    dated = max((e.issued_ns or 0 for e in view.events if e.started_ns is not None), default=None)
    steps = []
    for number, low, high in bounds:
        if high <= low or low < first or (after is not None and number <= after):
            continue
        if dated is not None and high > dated:
            break
        inside = 0
        for begin, end in spans[bisect_right(ends, low) :]:
            if begin >= high:
                break
            inside += min(end, high) - max(begin, low)
        of_device = sum(work for _, work in device[bisect_right(given, low) : bisect_right(given, high)])
        steps.append(
            OwnStep(
                number=number,
                length_s=(high - low) / NS,
                own_s=max(high - low - inside, of_device) / NS,
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


def _device_work(events: Sequence[Event]) -> list[tuple[int, int]]:
    """When the host made a call or a wait for which the device's stream stood, and what the stream had done before.

    That is counted from the stall before, and only if the device was still busy when the host had come so far.
    """
    timed = [e for e in events if e.started_ns is not None and e.completed_ns is not None]
    waits = {event.body.on for event in timed if isinstance(event.body, Wait)}
    stalls = sorted(
        (event.started_ns or 0, event.completed_ns or 0, event.issued_ns or 0)
        for event in timed
        if isinstance(event.body, Wait) or event.ref not in waits
    )
    found = []
    for (_, ended, _), (began, _, issued) in pairwise(stalls):
        if began - max(issued, ended) >= MIN_BUSY_S * NS:
            found.append((issued, began - ended))
    return sorted(found)


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
