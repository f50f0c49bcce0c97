"""A job's calls and phases as a trace that Chrome and Perfetto open: ranks x lanes, with arrows between ends of calls.

[Note: the trace]
Chrome's trace event format (the document "Trace Event Format"), which Perfetto reads (perfetto.dev, "Other formats").
A process is a rank; a track is one lane of it, and its number is unique in the file, since one reader names threads by
that alone. Times are microseconds since the first event. An arrow leaves the rank that came last to a collective and
ends at each other one; it needs a slice around both ends. Slices of one track must nest: calls that overlap on one
communicator are written as begin and end of an asynchronous event instead. A call that has the device's times is drawn
at them, on its communicator's track; its launch is an argument of the slice.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from emberward.events import Barrier, Collective, Event, Lane, LaneKind, Recv, Send, describe
from emberward.findings import Finding
from emberward.lens._calls import RankCalls
from emberward.lens._clocks import HostClock, clocks_of

TRACKS_OF_A_RANK = 64
STEPS, PHASES, FIRST_LANE = 0, 1, 8
MAX_ARROWS = 20_000
ONE_HOST = "one host's monotonic clock; no offset between ranks"
HOSTS = "each host's own clock: ranks of different hosts are not aligned, for no collective ties them"
ALIGNED = "{host}'s clock, the others' aligned by the collectives that they meet in, right to {error:.3f} ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A stretch of a rank's time that has a name, in nanoseconds of its clock. `track`: STEPS, or PHASES and above."""

    name: str
    track: int
    began_ns: int
    ended_ns: int
    step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTimeline:
    """What is drawn of one rank. `tracks` names those of `spans`."""

    calls: RankCalls
    spans: tuple[Span, ...]
    tracks: Mapping[int, str]
    host: str | None = None


def timeline(ranks: Sequence[RankTimeline], findings: Sequence[Finding] = ()) -> dict[str, Any]:
    """The trace of the ranks as one JSON object. See [Note: the trace]. Empty of events where nothing has a time."""
    hosts = list(dict.fromkeys(rank.host for rank in ranks))
    clocks = clocks_of(ranks) if len(hosts) > 1 else None
    if clocks is not None:
        ranks = [_aligned(rank, clocks[rank.host or ""]) for rank in ranks]
    times = [t for rank in ranks for t in _times(rank)]
    base = min(times, default=0)
    events: list[dict[str, Any]] = []
    for rank in ranks:
        events += _rank_events(rank, base)
    events += _arrows(ranks, base)
    events += _marks(ranks, findings, base)
    error_ms = max((clock.error_ns for clock in (clocks or {}).values()), default=0) / 1e6
    clock = ONE_HOST if len(hosts) <= 1 else HOSTS if clocks is None else ALIGNED.format(host=hosts[0], error=error_ms)
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {"clock": clock, "ranks": len(ranks)},
    }


def _aligned(rank: RankTimeline, clock: HostClock) -> RankTimeline:
    """The rank at its times on the first host's clock."""
    spans = tuple(
        replace(span, began_ns=clock.aligned_ns(span.began_ns), ended_ns=clock.aligned_ns(span.ended_ns))
        for span in rank.spans
    )
    calls = replace(rank.calls, events=tuple(clock.aligned(event) for event in rank.calls.events))
    return replace(rank, calls=calls, spans=spans)


def _times(rank: RankTimeline) -> Iterator[int]:
    yield from (span.began_ns for span in rank.spans)
    yield from (event.issued_ns for event in rank.calls.events if event.issued_ns is not None)


def _us(at_ns: int, base: int) -> float:
    return round((at_ns - base) / 1000, 3)


def _lanes(rank: RankTimeline) -> dict[Lane, int]:
    """The track of each lane, the host's threads first; lanes beyond a rank's tracks share the last."""
    lanes = sorted({event.lane for event in rank.calls.events}, key=lambda lane: (lane.kind is not LaneKind.HOST, lane))
    last = TRACKS_OF_A_RANK - 1
    return {lane: min(FIRST_LANE + i, last) for i, lane in enumerate(lanes)}


def _rank_events(rank: RankTimeline, base: int) -> Iterator[dict[str, Any]]:
    number = rank.calls.rank
    first = TRACKS_OF_A_RANK * number
    lanes = _lanes(rank)
    yield {"ph": "M", "name": "process_name", "pid": number, "tid": first, "args": {"name": f"rank {number}"}}
    yield {"ph": "M", "name": "process_sort_index", "pid": number, "tid": first, "args": {"sort_index": number}}
    names = {**rank.tracks, **{at: f"{lane.label or lane}" for lane, at in lanes.items()}}
    for at, name in names.items():
        yield {"ph": "M", "name": "thread_name", "pid": number, "tid": first + at, "args": {"name": name}}
    for span in rank.spans:
        yield {
            **_slice(number, first + span.track, span.name, span.began_ns, span.ended_ns, base),
            "args": {} if span.step is None else {"step": span.step},
        }
    for index, event in enumerate(rank.calls.events):
        if event.issued_ns is None or event.completed_ns is None:
            continue
        args: dict[str, Any] = {
            "line": None if event.site is None else str(event.site),
            "step": event.phase.step,
            "number": rank.calls.sequences.get(event.ref),
        }
        began_ns = _began_ns(event)
        if event.started_ns is not None:
            args["launched_us"] = _us(event.issued_ns, base)
        name, track = describe(event.body), first + lanes[event.lane]
        if _is_slice(event):
            yield {**_slice(number, track, name, began_ns, event.completed_ns, base), "args": args}
        else:
            both = {"cat": "call", "name": name, "pid": number, "tid": track, "id": f"{number}.{index}"}
            yield {**both, "ph": "b", "ts": _us(began_ns, base), "args": args}
            yield {**both, "ph": "e", "ts": _us(event.completed_ns, base)}


def _began_ns(event: Event) -> int:
    """When the call began: on the device, where that told its times; else when the host made it."""
    return event.started_ns or event.issued_ns or 0


def _is_slice(event: Event) -> bool:
    """Whether the calls of its track do not overlap: the host's, and on a device what a communicator does in order."""
    is_timed = event.started_ns is not None and not isinstance(event.body, Send | Recv)
    return event.lane.kind is LaneKind.HOST or is_timed


def _slice(rank: int, track: int, name: str, began: int, ended: int, base: int) -> dict[str, Any]:
    duration = round(max(ended - began, 0) / 1000, 3)
    return {"ph": "X", "pid": rank, "tid": track, "name": name, "ts": _us(began, base), "dur": duration}


def _arrows(ranks: Sequence[RankTimeline], base: int) -> Iterator[dict[str, Any]]:
    """From the rank that came last to each collective that is a slice to the others."""
    met: dict[tuple[Any, int], list[tuple[int, int, Event]]] = {}
    for rank in ranks:
        lanes = _lanes(rank)
        for event in rank.calls.events:
            number = rank.calls.sequences.get(event.ref)
            is_drawn = _is_slice(event) and isinstance(event.body, Collective | Barrier)
            if number is None or not is_drawn or event.issued_ns is None or event.completed_ns is None:
                continue
            assert isinstance(event.body, Collective | Barrier), "as was asked above"
            track = TRACKS_OF_A_RANK * rank.calls.rank + lanes[event.lane]
            met.setdefault((event.body.group, number), []).append((rank.calls.rank, track, event))
    count = 0
    for ends in met.values():
        last = max(ends, key=lambda end: _began_ns(end[2]))
        for end in ends:
            if end is last or count >= MAX_ARROWS:
                continue
            count += 1
            same = {"cat": "collective", "name": "waited for", "id": count}
            start, stop = _began_ns(last[2]), end[2].completed_ns or 0
            yield {**same, "ph": "s", "pid": last[0], "tid": last[1], "ts": _us(start, base)}
            yield {**same, "ph": "f", "bp": "e", "pid": end[0], "tid": end[1], "ts": _us(max(stop - 1, start), base)}


def _marks(ranks: Sequence[RankTimeline], findings: Sequence[Finding], base: int) -> Iterator[dict[str, Any]]:
    """Findings, each at the begin of its culprit's first step."""
    for finding in findings:
        for rank in ranks:
            if rank.calls.rank in finding.culprit_ranks and rank.spans:
                yield {
                    "ph": "i",
                    "s": "p",
                    "pid": rank.calls.rank,
                    "tid": TRACKS_OF_A_RANK * rank.calls.rank + STEPS,
                    "name": f"{finding.code} {finding.cause.value}",
                    "ts": _us(min(span.began_ns for span in rank.spans), base),
                    "args": {"message": finding.message, "line": finding.site},
                }
