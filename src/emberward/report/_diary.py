"""What a run's own diary says about its health: rewinds, hours lost by cause, how often it should save."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from emberward.findings import ConfigError
from emberward.health import (
    Goodput,
    IntervalAdvice,
    JobCosts,
    LossRow,
    advise_interval,
    goodput_of,
    hours_lost_by_cause,
    kept_until,
)
from emberward.recipe import read_resolved
from emberward.report._duration import duration_text
from emberward.report._folder import RunFolder
from emberward.report._read import JsonObject, read_lines

FAILED = ("failed", "killed")
MIN_FAILURES = 2
"""Failures before a run is advised how often to save: of one alone there is no rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diary:
    """`acts` are rewinds and what undid them, one line each; `losses` the dearest cause first.

    `advice` is None before the run has saved, and failed twice.
    """

    goodput: Goodput | None
    acts: tuple[str, ...]
    losses: tuple[LossRow, ...]
    advice: IntervalAdvice | None

    def rows(self) -> list[tuple[str, str]]:
        """(label, text) for a summary that people read."""
        rows = [("rewind", text) for text in self.acts]
        if (good := self.goodput) is not None and good.losses:
            parts = [("in steps that are kept", good.kept_s), ("lost", sum(good.lost_s.values())),
                     ("in starts, saves and evaluations", good.other_s)]  # fmt: skip
            said = ", ".join(f"{duration_text(seconds)} {what}" for what, seconds in parts if seconds >= 1)
            rows.append(("goodput", f"{100 * good.share:.1f}% of {duration_text(good.elapsed_s)}: {said}"))
        if self.losses:
            causes = (
                f"{row.cause.replace('_', ' ')} {duration_text(row.hours * 3600)} ({row.num_times} x)"
                for row in self.losses
            )
            rows.append(("lost to", ", ".join(causes)))
        if self.advice is not None:
            rows.append(("saves", self.advice.text()))
        return rows

    def to_json(self) -> JsonObject:
        """The diary as it stands in a command's JSON document."""
        advice = self.advice
        return {
            "rewinds": list(self.acts),
            "goodput": None if self.goodput is None else self.goodput.to_json(),
            "hours_lost_by_cause": {row.cause: row.hours for row in self.losses},
            "save_advice": None
            if advice is None
            else {
                "best_s": advice.best_s,
                "best_steps": advice.best_steps,
                "best_share": advice.best_share,
                "present_share": advice.present_share,
                "text": advice.text(),
            },
        }


NO_DIARY = Diary(goodput=None, acts=(), losses=(), advice=None)


def read_diary(folder: RunFolder, steps: Sequence[JsonObject], *, until_unix: float | None = None) -> Diary:
    """The diary of the run in `folder`, whose steps' metrics are `steps`. Reads only.

    `until_unix`: when it was last known to live, of a run that has no end.
    """
    lines = list(read_lines(folder.attempts))
    acts = tuple(
        str(line["text"]) for line in lines if line.get("event") in ("rewind", "undo_rewind") and "text" in line
    )
    last = kept_until(lines)
    kept = [line.get("step_s") for line in steps if last is None or line["step"] <= last]
    kept_s = sum(seconds for seconds in kept if isinstance(seconds, int | float))
    return Diary(
        goodput=goodput_of(lines, kept_s, until_unix=until_unix),
        acts=acts,
        losses=hours_lost_by_cause(lines),
        advice=_advice(folder, lines, steps),
    )


def _advice(folder: RunFolder, lines: Sequence[JsonObject], steps: Sequence[JsonObject]) -> IntervalAdvice | None:
    """See `advise_interval`. What a save costs is what it kept the training waiting, beside or in it."""
    ends = [line for line in lines if line.get("event") == "end"]
    # Without an outcome the launcher itself died, as in a power cut.
    failed = [
        line
        for line in ends
        if line.get("outcome") in FAILED or (line.get("outcome") is None and line.get("hours_lost"))
    ]
    run_s = sum(line.get("hours") or 0.0 for line in ends) * 3600
    save_s = _median(steps, "save_blocked_s")
    step_s = _median(steps, "step_s")
    if len(failed) < MIN_FAILURES or save_s is None or step_s is None:
        return None
    # An attempt's first steps come after start and load: the time that it ran and did not train.
    restart_s = [max((line.get("hours") or 0.0) * 3600 - _trained_s(line, lines, steps), 0.0) for line in ends]
    return advise_interval(
        JobCosts(
            save_s=save_s,
            step_s=step_s,
            run_s=run_s,
            num_failures=len(failed),
            restart_s=statistics.median(restart_s) if restart_s else 0.0,
            interval_steps=_interval_of(folder),
        )
    )


def _interval_of(folder: RunFolder) -> int | None:
    """Steps between the run's saves; None when it saves only at the end, or cannot be read."""
    try:
        return read_resolved(folder.config).recipe.save.interval
    except (ConfigError, OSError):
        return None


def _trained_s(end: JsonObject, lines: Sequence[JsonObject], steps: Sequence[JsonObject]) -> float:
    """Seconds of an attempt's steps as far as metrics still know them."""
    start: JsonObject = next(
        (line for line in lines if line.get("event") == "start" and line.get("attempt") == end.get("attempt")), {}
    )
    first, last = start.get("saved_step") or 0, end.get("last_step") or 0
    return sum(line.get("step_s") or 0.0 for line in steps if first < line["step"] <= last)


def _median(steps: Sequence[JsonObject], key: str) -> float | None:
    values: list[Any] = [line[key] for line in steps if isinstance(line.get(key), int | float)]
    return statistics.median(values) if values else None
