"""All runs below a folder, a row each, read from the ends of their files: any number of runs, however long they are."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from emberward.findings import Finding
from emberward.report._duration import duration_text
from emberward.report._findings import read_findings, telling_finding
from emberward.report._fit import left_table
from emberward.report._folder import RunFolder
from emberward.report._read import parse_line, read_json, read_lines, tail_text
from emberward.report._state import Signs, State, state_of
from emberward.report._watched import watched_steps

MARKERS = ("config.resolved.yaml", "command.json")
"""One of them lies in every run's folder: the recipe of ``train``, or what ``run`` started."""
MAX_WHY = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run in a list. Absent facts are None.

    `outcome` is that of the last attempt: done, stopped, failed, killed; None without an end. `started_unix` is the
    start of the last attempt, or when the folder was made; `why` says why it ended. `last_step_unix`: when the last
    step was written. `findings`: those that stand, of a run without an end.
    """

    folder: RunFolder
    outcome: str | None
    step: int | None
    steps: int | None
    loss: float | None
    has_bad_loss: bool
    step_s: float | None
    started_unix: float
    num_attempts: int
    why: str | None
    last_step_unix: float | None
    findings: tuple[Finding, ...]

    def why_in(self, state: State) -> str:
        """Why it ended, or what stands against it where it needs a person; "" where neither is known."""
        if self.why is not None or not state.is_bad:
            return self.why or ""
        worst = telling_finding(self.findings, stands_still=state is State.STALLED)
        return "" if worst is None else f"{worst.code} {worst.message}"[:MAX_WHY]

    def to_json(self, *, state: str) -> dict[str, Any]:
        """The row as it stands in a command's JSON document."""
        return {
            "run": str(self.folder.path),
            "name": self.folder.name,
            "id": self.folder.id,
            "state": state,
            "step": self.step,
            "steps": self.steps,
            "loss": self.loss,
            "started_unix": self.started_unix,
            "attempts": self.num_attempts,
            "why": self.why_in(State(state)) or None,
        }


def find_runs(runs: Path) -> Iterator[RunFolder]:
    """The run folders ``runs/NAME/ID``; a folder that cannot be read, or that has neither marker yet, is left out."""
    for name in _folders(runs):
        for path in _folders(name):
            if any((path / marker).exists() for marker in MARKERS):
                yield RunFolder(path=path)


def _folders(path: Path) -> list[Path]:
    try:
        return [each for each in path.iterdir() if each.is_dir()]
    except OSError:
        return []


def read_row(folder: RunFolder) -> RunRow:
    """The row of a run. Reads its attempts, two small files and the last lines of its metrics; raises nothing."""
    lines = list(read_lines(folder.attempts))
    starts = [line for line in lines if line.get("event") == "start"]
    ends = [line for line in lines if line.get("event") == "end"]
    last = starts[-1] if starts else {}
    end = ends[-1] if ends and ends[-1].get("attempt") == last.get("attempt") else {}
    said, summary = read_json(folder.progress) or {}, read_json(folder.summary) or {}
    curve, last_step_unix = _last_metrics(folder), _modified_unix(folder)
    metrics = curve
    if last_step_unix is None:
        watched, last_step_unix = watched_steps(folder, newest=1)
        metrics = watched[-1] if watched else {}
    step = metrics.get("step", said.get("step"))
    loss, steps = curve.get("loss"), said.get("steps", summary.get("steps"))
    is_open = (end if starts else summary).get("outcome") is None
    why = end.get("why") if end.get("outcome") not in ("done", None) else None
    return RunRow(
        folder=folder,
        outcome=_text(end.get("outcome")) if starts else _text(summary.get("outcome")),
        step=step if isinstance(step, int) else None,
        steps=steps if isinstance(steps, int) else None,
        loss=float(loss) if isinstance(loss, int | float) else None,
        has_bad_loss=bool(curve.get("nan")),
        step_s=float(took) if isinstance(took := metrics.get("step_s"), int | float) else None,
        started_unix=_started_unix(folder, last.get("start")),
        num_attempts=len(starts),
        why=None if why is None else str(why)[:MAX_WHY],
        last_step_unix=last_step_unix,
        findings=read_findings(folder, starts, None)[0] if is_open else (),
    )


def _last_metrics(folder: RunFolder) -> dict[str, Any]:
    """The last whole line; one that is being written is not believed."""
    for line in reversed(tail_text(folder.curve, num_lines=2)):
        found = parse_line(line.encode())
        if found is not None:
            return found
    return {}


def _modified_unix(folder: RunFolder) -> float | None:
    try:
        return folder.metrics.stat().st_mtime
    except OSError:
        return None


def _started_unix(folder: RunFolder, text: object) -> float:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        pass
    try:
        return folder.path.stat().st_mtime
    except OSError:
        return 0.0


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def row_state(row: RunRow, *, is_alone: bool, now_unix: float) -> State:
    """Where the run of a row stands; `is_alone`: its launcher is gone. Reads one small file."""
    said = read_json(row.folder.progress) or {}
    phase = said.get("phase")
    return state_of(
        Signs(
            outcome=row.outcome,
            num_attempts=row.num_attempts,
            is_alone=is_alone,
            phase=phase if isinstance(phase, str) else None,
            step_age_s=None if row.last_step_unix is None else now_unix - row.last_step_unix,
            step_s=row.step_s,
            findings=row.findings,
        )
    )


def loss_text(loss: float | None, *, is_bad: bool, unknown: str) -> str:
    """A loss for people; `is_bad`: it is not finite, and no number stands for it."""
    return "not finite" if is_bad else unknown if loss is None else f"{loss:.4f}"


def rows_text(rows: list[tuple[RunRow, str]], *, now_unix: float, width: int | None) -> str:
    """The rows with their states for people, a line each, and below it why a run ended or needs a person."""
    shown = []
    for row, state in rows:
        step = "" if row.step is None else str(row.step) + ("" if row.steps is None else f"/{row.steps}")
        loss = loss_text(row.loss, is_bad=row.has_bad_loss, unknown="")
        ago = f"{duration_text(now_unix - row.started_unix)} ago"
        shown.append([f"{row.folder.name}/{row.folder.id}", state, step, loss, ago])
    header = ["run", "state", "step", "loss", "started", "why"]
    why = [row.why_in(State(state)) for row, state in rows]
    lines = left_table(header[:-1], shown, width=width)
    if len(lines) != len(rows) + 1:
        blocks = [[*each, said] for each, said in zip(shown, why, strict=True)]
        return "\n".join(left_table(header, blocks, width=0))
    whole = [lines[0]]
    for line, said in zip(lines[1:], why, strict=True):
        whole += [line, f"  why: {said}"] if said else [line]
    return "\n".join(whole)
