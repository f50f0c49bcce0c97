"""The loss curve of a program that writes no metrics, from its own logs into the run's folder."""

import json
import threading
from contextlib import suppress
from pathlib import Path

from emberward.findings import Cause, Certainty, Finding, FindingPhase, Kind, Severity
from emberward.report import RunFolder, read_lines
from emberward.sources.losses import Logged, LossReader

POLL_S = 1.0
LAST_LIMIT_S = 1.5
MAX_VALUES = 1_000_000
"""Of one curve."""
LEAST = 2
"""Values that make a curve."""

NOT_FINITE = 3
"""Values in a row that are not finite: one or two may be a step that a loss scale skips."""

Values = list[tuple[int, float | None]]


def shown_curve(counts: dict[str, int], now: str | None) -> str | None:
    """The curve that stands for the run, of `counts` values each; `now`: the one that does. Pure.

    The one with the most values, and of those with at least half as many one that has steps. Another takes its place
    only with twice its values.
    """
    most = max(counts.values(), default=0)
    if most < LEAST or (now is not None and 2 * counts.get(now, 0) > most):
        return now
    near = [curve for curve, count in counts.items() if 2 * count >= most and count >= LEAST]
    return min(near, key=lambda curve: (not curve.endswith("by step"), -counts[curve]))


class LossLog:
    """Writes ``logged.jsonl`` and ``evals.jsonl`` from what the ranks of the ring folder log, on a thread of its own.

    A log may lie on a disk that blocks: that must not hold up the watch. A program of ours that writes metrics notes
    nothing, and then nothing is written.
    """

    def __init__(self, rings: Path, folder: RunFolder) -> None:
        self._folder = folder
        self._curves: dict[str, Values] = {}
        self._shown: str | None = None
        for row in read_lines(folder.logged):
            if isinstance(row.get("step"), int) and isinstance(row.get("curve"), str):
                self._shown = row["curve"]
                self._curves.setdefault(row["curve"], []).append((row["step"], row.get("loss")))
        counted = {curve: values[-1][0] for curve, values in self._curves.items()}
        self._reader = LossReader(rings, counted)
        self._not_finite: list[int] = []
        """The steps since which the shown curve is not finite, the first `NOT_FINITE` of them."""
        self._is_told = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="losses", daemon=True)

    def start(self) -> None:
        """Reads every POLL_S from here on."""
        self._thread.start()

    def end(self) -> None:
        """Reads what was logged last; waits LAST_LIMIT_S."""
        self._over.set()
        self._thread.join(LAST_LIMIT_S)

    def new_findings(self) -> tuple[Finding, ...]:
        """R101, once, when the newest values of this attempt are not finite."""
        steps = self._not_finite
        if self._is_told or len(steps) < NOT_FINITE:
            return ()
        self._is_told = True
        return (_not_finite(str(self._shown), steps[0]),)

    def _go_on(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._over.wait(POLL_S)
            with suppress(OSError):
                while self.take():
                    pass

    def take(self) -> int:
        """Writes what is new; how many values that were. Raises OSError when the folder cannot be written."""
        new = self._reader.poll()
        if not new:
            return 0
        evaluated = [each for each in new if each.is_evaluation and each.value is not None]
        if evaluated:
            _append(self._folder.evals, [_evaluation(each) for each in evaluated])
        for each in new:
            values = self._curves.setdefault(each.curve, [])
            if not each.is_evaluation and len(values) < MAX_VALUES:
                values.append((each.step, each.value))
        before = self._shown
        self._shown = shown_curve({curve: len(values) for curve, values in self._curves.items()}, before)
        if self._shown is None:
            return len(new)
        for each in new:
            if each.curve == self._shown and not each.is_evaluation:
                bad = [] if each.value is not None else [*self._not_finite, each.step]
                self._not_finite = bad[:NOT_FINITE]
        if self._shown != before:
            temporary = self._folder.logged.with_suffix(".tmp")
            temporary.unlink(missing_ok=True)
            _append(temporary, [_row(self._shown, *value) for value in self._curves[self._shown]])
            temporary.replace(self._folder.logged)
        else:
            mine = [each for each in new if each.curve == before and not each.is_evaluation]
            _append(self._folder.logged, [_row(before, each.step, each.value) for each in mine])
        return len(new)


def _not_finite(curve: str, step: int) -> Finding:
    return Finding(
        code="R101",
        severity=Severity.WARNING,
        kind=Kind.SPIKE,
        cause=Cause.UNKNOWN,
        certainty=Certainty.OBSERVED,
        message=f"the loss that the program logs is not finite since step {step}",
        phase=FindingPhase(step=step),
        evidence=(curve, "the job trains on: nothing ends it for that"),
        next="look at the batch and the gradients of that step: torch.autograd.set_detect_anomaly(True) names the "
        "first operation; a save from after that step may hold NaN too",
    )


def _row(curve: str, step: int, value: float | None) -> dict[str, object]:
    return {"step": step, "loss": value, "curve": curve, **({"nan": 1} if value is None else {})}


def _evaluation(each: Logged) -> dict[str, object]:
    return {"step": each.step, "sets": {each.name: {"loss": each.value}}}


def _append(path: Path, rows: list[dict[str, object]]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
