"""How long a rank may stand still, by this job's own history.

[Note: limits]
Two bounds. Past the first (`notice_s`) two snapshots are taken and a word may be said: five seconds, or three times the
99th percentile of the pauses that this rank makes in this phase. Past the second (`limit_s`) standing still is an alarm
though the rank may live: it burns CPU, sleeps, reads. The first tenth of a rank's pauses counts for the second bound
alone: a job that warms up (imports, caches, a first compilation) would keep the watcher from looking for long. That
bound is never below 75 s in a phase that has a history, and
300 s in one that has none: a first step compiles, a first evaluation or save has no length to compare with. What is
provably stuck needs no second bound. A pause is the time between two calls that follow each other in the ring.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from emberward.events import Stage
from emberward.sources.ring import Mark, MarkKind, RingView

NS = 1e9
MIN_NOTICE_S = 4.0
NOTICE_FACTOR = 3.0
MIN_LIMIT_S = 75.0
LIMIT_FACTOR = 5.0
UNKNOWN_LIMIT_S = 300.0
MIN_PAUSES = 6
"""Pauses that make a history of a job without marks of steps."""
MIN_STEADY = 20
"""Pauses from which on the first tenth of them counts as warming up."""
MIN_STEPS = 3
"""Steps that make a history, and earlier stretches that make one of an evaluation or a save."""

_LONG_KINDS = {
    MarkKind.EVAL: 1,
    MarkKind.SAVE: 1,
    MarkKind.LOAD: 1,
    MarkKind.COMPILE: MIN_STEPS,
    MarkKind.SETUP: MIN_STEPS,
    MarkKind.EXIT: MIN_STEPS,
}
"""Phases with lengths of their own, and how many earlier ones make a history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on standing still. See [Note: limits]."""

    notice_s: float
    limit_s: float
    has_history: bool


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of the values lie, by nearest rank; 0 of none."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _bounds(lengths: Sequence[float], *, has_history: bool) -> Limits:
    """The bounds by earlier `lengths`, the oldest first."""
    steady = lengths[len(lengths) // 10 :] if len(lengths) >= MIN_STEADY else lengths
    return Limits(
        notice_s=max(MIN_NOTICE_S, NOTICE_FACTOR * percentile(steady, 0.99)),
        limit_s=max(MIN_LIMIT_S if has_history else UNKNOWN_LIMIT_S, LIMIT_FACTOR * max(lengths, default=0.0)),
        has_history=has_history,
    )


def limits_of(view: RingView) -> Limits:
    """The bounds for what the rank does now."""
    phase = _long_phase(view.open_marks)
    if phase is not None:
        past = [
            (mark.ended_ns - mark.began_ns) / NS
            for mark in view.marks
            if mark.kind is phase and mark.ended_ns is not None and mark.ended_ns > mark.began_ns
        ]
        return _bounds(past, has_history=len(past) >= _LONG_KINDS[phase])
    inside = _long_stretches(view)
    moments = sorted(
        ns
        for event in view.events
        for ns in (event.issued_ns, event.completed_ns)
        if ns is not None and not any(low <= ns <= high for low, high in inside)
    )
    pauses = [(b - a) / NS for a, b in pairwise(moments)]
    steps = sum(mark.kind is MarkKind.STEP for mark in view.marks)
    has_history = steps >= MIN_STEPS or (steps == 0 and len(pauses) >= MIN_PAUSES)
    return _bounds(pauses, has_history=has_history)


def _long_phase(open_marks: Sequence[Mark]) -> MarkKind | None:
    return next((mark.kind for mark in open_marks if mark.kind in _LONG_KINDS), None)


def _long_stretches(view: RingView) -> list[tuple[int, int]]:
    """Evaluations and saves that have ended: their pauses are no measure for a step."""
    found: dict[MarkKind, list[tuple[int, int]]] = defaultdict(list)
    for mark in view.marks:
        if mark.kind in _LONG_KINDS and mark.ended_ns is not None and mark.ended_ns > mark.began_ns:
            found[mark.kind].append((mark.began_ns, mark.ended_ns))
    return [span for spans in found.values() for span in spans[-64:]]


def stage_name(stage: Stage | None) -> str:
    """The phase as people say it."""
    return "its step" if stage is None else stage.value
