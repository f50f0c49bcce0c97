"""Where a run stands now: what its folder says, as one value that is shown live."""

import statistics
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from emberward.report._duration import duration_text, running_s
from emberward.report._folder import RunFolder
from emberward.report._read import LineTail, read_json, read_lines

NUM_RECENT_STEPS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A run at one moment. Absent facts are None.

    `phase` is setup, train, eval, save, sample or done; `age_s` is the time since rank 0's last heartbeat, `running_s`
    the time that all attempts took so far, as a run's summary has it.
    """

    phase: str | None = None
    detail: str | None = None
    step: int | None = None
    steps: int | None = None
    loss: float | None = None
    tokens_per_s: float | None = None
    step_s: float | None = None
    eta_s: float | None = None
    age_s: float | None = None
    running_s: float | None = None


def eta_s(*, step: int, steps: int, recent_step_s: Collection[float]) -> float | None:
    """Seconds until `steps` at the median of the recent step times, without saves and evals; None before a step."""
    if not recent_step_s:
        return None
    return max(steps - step, 0) * statistics.median(recent_step_s)


def size_text(num_bytes: int) -> str:
    """Bytes in the largest binary unit from MiB on that they fill."""
    if num_bytes >= 2**30:
        return f"{num_bytes / 2**30:.2f} GiB"
    return f"{num_bytes / 2**20:.2f} MiB" if num_bytes >= 2**20 else f"{num_bytes:,} B"


def count_text(value: float) -> str:
    """A count that fits a line: 950, 12.3k, 4.5M, 2.0G."""
    # From where on the shorter form would be rounded up to 1000.
    for least, limit, unit in ((999.95e6, 1e9, "G"), (999.95e3, 1e6, "M"), (999.5, 1e3, "k")):
        if abs(value) >= least:
            return f"{value / limit:.1f}{unit}"
    return f"{value:.0f}"


def progress_text(progress: Progress, *, width: int | None = None) -> str:
    """One line for people: step, loss, speed, time left, and the phase when it is not training.

    On a narrow screen the parts that matter least are left out; none is cut, and the time left stays to the last.
    """
    parts: list[tuple[int, str]] = []
    if progress.step is not None and progress.phase != "setup":
        parts.append((0, f"step {progress.step}" + ("" if progress.steps is None else f"/{progress.steps}")))
    if progress.loss is not None:
        parts.append((2, f"loss {progress.loss:.4f}"))
    if progress.tokens_per_s is not None:
        parts.append((3, f"{count_text(progress.tokens_per_s)} tok/s"))
    if progress.step_s is not None:
        parts.append((4, f"{progress.step_s:.2f} s/step"))
    if progress.eta_s is not None:
        parts.append((1, f"ETA {duration_text(progress.eta_s)}"))
    if progress.phase == "setup":
        parts.append((0, "starting" + (f": {progress.detail}" if progress.detail else "")))
    elif progress.phase not in (None, "train"):
        parts.append((2, str(progress.phase) + (f": {progress.detail}" if progress.detail else "")))
    while width is not None and len(parts) > 1 and len("  ".join(text for _, text in parts)) > width:
        parts.remove(max(parts, key=lambda part: part[0]))
    return "  ".join(text for _, text in parts) or "starting"


def step_text(metrics: Mapping[str, Any], *, steps: int, left_s: float | None) -> str:
    """One line for people of one object of ``metrics.jsonl``, within 80 columns."""
    shown = [f"step {metrics.get('step'):>{len(str(steps))}}/{steps}"]
    loss, grad_norm, rate = metrics.get("loss"), metrics.get("grad_norm"), metrics.get("tokens_per_s")
    shown.append("loss not finite, skipped" if loss is None else f"loss {loss:.4f}")
    if grad_norm is not None:
        shown.append(f"grad norm {grad_norm:.3g}")
    if rate is not None:
        shown.append(f"{count_text(rate)} tok/s")
    if left_s is not None:
        shown.append(f"ETA {duration_text(left_s)}")
    return "  ".join(shown)


def eval_text(line: Mapping[str, Any]) -> str:
    """One line for people of one object of ``evals.jsonl``: the step, and the mean loss of each set in nats a token."""
    sets = line.get("sets") or {}
    means = [f"{name} {values['loss']:.4f}" for name, values in sets.items() if values.get("loss") is not None]
    return f"evaluation at step {line.get('step')}: " + (", ".join(means) or "no set")


class ProgressReader:
    """Reads a run's folder again and again. Believes whole lines only.

    Steps up to `after_step`, and steps that were given before, are not given again: a run that resumes cuts its metrics
    back to the save's step and writes the rest anew.
    """

    def __init__(self, folder: RunFolder, *, from_end: bool = False, after_step: int | None = None) -> None:
        self._folder = folder
        self._path = folder.curve
        self._tail = LineTail(self._path, from_end=from_end)
        self._given = after_step
        self._recent_s: deque[float] = deque(maxlen=NUM_RECENT_STEPS)
        self._last: dict[str, Any] = {}

    def poll(self, *, now_unix: float) -> tuple[Progress, list[dict[str, Any]]]:
        """Where the run stands, and the objects of the steps since the last call. Reads three files; does not wait."""
        if self._given is None and self._folder.curve != self._path:
            self._path = self._folder.curve
            self._tail = LineTail(self._path)
        new = [metrics for metrics in self._tail.poll() if self._is_new(metrics)]
        for metrics in new:
            if isinstance(metrics.get("step_s"), int | float):
                self._recent_s.append(metrics["step_s"])
        if new:
            self._last = new[-1]
        said = read_json(self._folder.progress) or {}
        step = self._last.get("step", said.get("step"))
        steps = said.get("steps")
        left_s = None
        if isinstance(step, int) and isinstance(steps, int):
            left_s = eta_s(step=step, steps=steps, recent_step_s=self._recent_s)
        said_unix = said.get("time_unix")
        attempts = list(read_lines(self._folder.attempts))
        return (
            Progress(
                phase=said.get("phase"),
                detail=said.get("detail"),
                step=step,
                steps=steps,
                loss=self._last.get("loss"),
                tokens_per_s=self._last.get("tokens_per_s"),
                step_s=statistics.median(self._recent_s) if self._recent_s else None,
                eta_s=left_s,
                age_s=None if said_unix is None else max(now_unix - said_unix, 0.0),
                running_s=running_s(attempts, until_unix=now_unix) if attempts else None,
            ),
            new,
        )

    def _is_new(self, metrics: dict[str, Any]) -> bool:
        step = metrics.get("step")
        if not isinstance(step, int) or (self._given is not None and step <= self._given):
            return False
        self._given = step
        return True
