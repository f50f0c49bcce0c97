"""When the steps of a job became slower while it runs, for whom the others wait since, and what happened beside it.

[Note: a slowdown is said]
A change must hold for HOLD_S, by its own steps, until it is said: a host that is busy for a moment makes two slow steps
too. It is taken back when steps are as before.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from emberward.findings import Finding, ranks_text
from emberward.health import BESIDE_STEPS, RankSlowdownWatch, Slowdown
from emberward.lens import slowdown_finding
from emberward.sources.ring import MarkKind, RingView

HOLD_S = 12.0
BESIDE = {
    MarkKind.SAVE: "a save",
    MarkKind.EVAL: "an evaluation",
    MarkKind.LOAD: "a file that torch loaded",
    MarkKind.COMPILE: "a compilation",
    MarkKind.DATA_END: "the end of a pass over the data",
}
Spans = Mapping[int, tuple[int, int]]
"""Step -> when it began and ended, on the rank's own clock."""


class SlowerSteps:
    """Sees the steps of a job one after the other and says which changes last. See [Note: a slowdown is said]."""

    def __init__(self) -> None:
        self._watch = RankSlowdownWatch()
        self._pending: dict[Slowdown, float] = {}
        """Changes that were not said, and how long they have held."""
        self._said: dict[Slowdown, Finding] = {}
        self._gone: list[Finding] = []

    @property
    def now(self) -> Slowdown | None:
        """The oldest change that holds."""
        return next(iter(self._watch.now), None)

    def see(self, *, step: int, step_s: float, own_s: Sequence[Mapping[int, float]]) -> None:
        """Takes the next step. `own_s`: as `RankSlowdownWatch.see` takes it."""
        for turn in self._watch.see(step=step, step_s=step_s, own_s=own_s):
            if not turn.is_over:
                self._pending[turn] = 0.0
        holds = set(self._watch.now)
        self._pending = {change: held + step_s for change, held in self._pending.items() if change in holds}
        for change in [change for change in self._said if change not in holds]:
            self._gone.append(self._said.pop(change))

    def news(
        self, views: Mapping[int, RingView], spans: Mapping[int, Spans]
    ) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
        """What is new, and what was said and holds no more. `spans`: rank -> its steps."""
        new = []
        for change in [change for change, held_s in self._pending.items() if held_s >= HOLD_S]:
            del self._pending[change]
            known = change if change.grown.members else self._watch.attributed(change)
            hosts = {rank: view.host for rank, view in views.items() if view.host is not None}
            finding = slowdown_finding(known, hosts=hosts, beside=marks_beside(change.first_step, views, spans))
            self._said[change] = finding
            new.append(finding)
        gone, self._gone = tuple(self._gone), []
        return tuple(new), gone


def marks_beside(first_step: int, views: Mapping[int, RingView], spans: Mapping[int, Spans]) -> tuple[str, ...]:
    """What ranks did within BESIDE_STEPS of a step beside their ordinary work, by their marks, in order."""
    found: dict[tuple[int, MarkKind], set[int]] = defaultdict(set)
    for rank, view in views.items():
        near = [(n, *spans[rank][n]) for n in spans.get(rank, ()) if abs(n - first_step) <= BESIDE_STEPS]
        for mark in view.marks:
            if mark.kind in BESIDE:
                ended_ns = mark.began_ns if mark.ended_ns is None else mark.ended_ns
                for step, low, high in near:
                    if mark.began_ns < high and ended_ns >= low:
                        found[step, mark.kind].add(rank)
                        break
    return tuple(
        f"{BESIDE[kind]} in step {step}" + ("" if len(ranks) == len(views) else f", on {ranks_text(ranks)}")
        for (step, kind), ranks in sorted(found.items())
    )


def known_of(own_s: Mapping[Any, Mapping[int, Mapping[int, float]]], step: int) -> tuple[dict[int, float], ...]:
    """Of each program rank -> its own part of the step; nothing when one rank's is not known."""
    if not all(step in by_step for peers in own_s.values() for by_step in peers.values()):
        return ()
    return tuple({rank: by_step[step] for rank, by_step in peers.items()} for peers in own_s.values())
