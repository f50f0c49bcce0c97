"""The whole run as a strip over its steps: what was trained, evaluated, saved, done again, and what went wrong."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from emberward.findings import Finding, Kind, Severity
from emberward.report import STOPPING, Glance, Html, State, join, read_lines, tag

WIDTH = 1000
LANES = (("train", "steps trained"), ("lost", "steps done again after a restart"), ("eval", "evaluations"),
         ("save", "saves"), ("restart", "starts after the first"), ("stall", "steps at which the ranks stood still"),
         ("incident", "findings"))  # fmt: skip
MAX_MARKS = 2000
"""Marks of one lane; of more, evenly chosen ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """Steps to mark in the strip and in all charts."""

    restarts: tuple[int, ...]
    evals: tuple[int, ...]
    saves: tuple[int, ...]
    incidents: tuple[tuple[int, str, str], ...]
    """Step, code, severity."""
    lost: tuple[tuple[int, int], ...]
    """First and last step of each stretch that had to be done again."""
    stalls: tuple[int, ...]
    """Steps at which an error made the ranks stand still, and that at which they do now."""


def marks_of(glance: Glance) -> Marks:
    """The marks of a run."""
    ends = {line.get("attempt"): line for line in glance.attempts if line.get("event") == "end"}
    starts = [line for line in glance.attempts if line.get("event") == "start"]
    restarts, lost = [], []
    for before, line in pairwise(starts):
        saved = line.get("saved_step")
        at = saved if isinstance(saved, int) else 0
        restarts.append(at)
        last = (ends.get(before.get("attempt")) or {}).get("last_step")
        if isinstance(last, int) and last > at:
            lost.append((at, last))
    findings = (*glance.recovered, *glance.findings)
    steps = [line["step"] for line in read_lines(glance.folder.evals) if isinstance(line.get("step"), int)]
    return Marks(
        restarts=tuple(restarts),
        evals=tuple(_thinned(sorted(set(steps)))),
        saves=tuple(save.step for save in glance.saves if save.problem is None),
        incidents=tuple(
            (each.phase.step, each.code, each.severity.value) for each in findings if each.phase.step is not None
        )[-MAX_MARKS:],
        lost=tuple(lost),
        stalls=_stalls(glance, findings),
    )


def _stalls(glance: Glance, findings: Iterable[Finding]) -> tuple[int, ...]:
    """A death is none: the attempt ends with it."""
    at = {
        each.phase.step
        for each in findings
        if each.severity is Severity.ERROR and each.kind in STOPPING and each.kind is not Kind.CRASH
    }
    at |= {glance.step} if glance.state is State.STALLED else set()
    return tuple(sorted(step for step in at if step is not None))


def _thinned(steps: list[int]) -> list[int]:
    return steps[:: -(-len(steps) // MAX_MARKS)] if len(steps) > MAX_MARKS else steps


def strip_part(glance: Glance) -> Html:
    """The strip as a picture, lanes below one another so that no lane is told by its colour alone."""
    marks = marks_of(glance)
    last = max([glance.step or 0, *(step for step, _, _ in marks.incidents), *(end for _, end in marks.lost)])
    whole = max(last, glance.steps or 0, 1)
    drawn = {
        "train": [_bar(0, glance.step or 0, whole)] if glance.step else [],
        "lost": [_bar(low, high, whole) for low, high in marks.lost],
        "eval": [_tick(step, whole) for step in marks.evals],
        "save": [_tick(step, whole) for step in marks.saves],
        "restart": [_tick(step, whole) for step in marks.restarts],
        "stall": [_tick(step, whole, wide=True) for step in marks.stalls],
        "incident": [_tick(step, whole, wide=True) for step, _, _ in marks.incidents],
    }
    lanes = [
        tag("div",
            tag("span", name, class_="lane-name", title=title),
            tag("svg", *drawn[name], viewBox=f"0 0 {WIDTH} 10", preserveAspectRatio="none", class_=f"lane {name}",
                aria_hidden="true"),
            class_="lane-row")
        for name, title in LANES if name in ("train", "save") or drawn[name]
    ]  # fmt: skip
    said = [f"steps 0 to {last:,}" + (f" of {glance.steps:,}" if glance.steps else "")]
    for name, found in (("evaluation", marks.evals), ("save", marks.saves), ("restart", marks.restarts),
                        ("stall", marks.stalls), ("finding", marks.incidents)):  # fmt: skip
        said += [f"{len(found)} {name}{'s' if len(found) > 1 else ''}"] if found else []
    return join(
        tag("div", *lanes, class_="lanes", data_steps=whole),
        tag("p", ", ".join(said), class_="note"),
    )


def _bar(low: int, high: int, whole: int) -> Html:
    return tag(
        "rect", x=f"{WIDTH * low / whole:.2f}", y=1, width=f"{max(WIDTH * (high - low) / whole, 1):.2f}", height=8
    )


def _tick(step: int, whole: int, *, wide: bool = False) -> Html:
    width = 6 if wide else 3
    return tag("rect", x=f"{min(WIDTH * step / whole, WIDTH - width):.2f}", y=0, width=width, height=10)
