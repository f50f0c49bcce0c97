"""What a run's folder tells of the steps around one: what a change of speed may coincide with, never its cause."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from emberward.health import BESIDE_STEPS
from emberward.report._folder import RunFolder
from emberward.report._read import JsonObject, read_lines

MAX_CHANGED = 4
TELLING = {
    "save_blocked_s": "training waited for a save for {:.2f} s",
    "save_s": "a save took {:.2f} s until it was whole",
}


def events_beside(folder: RunFolder, step: int, *, attempt: int | None = None) -> tuple[str, ...]:
    """Saves, evaluations, batch sizes, findings and starts of attempts within BESIDE_STEPS of a step.

    `attempt`: the one whose findings count, of a program that counts its steps anew in each; None: those of all.
    """
    near = [row for row in read_lines(folder.metrics) if _is_near(row.get("step"), step, more=1)]
    return (
        *_of_metrics([row for row in near if _is_near(row["step"], step)]),
        *_batch_sizes(near),
        *(
            f"an evaluation after step {row['step']}"
            for row in read_lines(folder.evals)
            if _is_near(row.get("step"), step)
        ),
        *_findings(folder, step, attempt),
        *_attempts(folder, step),
    )


def _is_near(found: object, step: int, *, more: int = 0) -> bool:
    return isinstance(found, int) and abs(found - step) <= BESIDE_STEPS + more


def _of_metrics(rows: list[JsonObject]) -> Iterator[str]:
    for row in rows:
        for key, words in TELLING.items():
            if isinstance(row.get(key), float | int):
                yield f"{words.format(row[key])}, in step {row['step']}"
        if row.get("save_failed"):
            yield f"a save that failed, seen in step {row['step']}"


def _batch_sizes(rows: list[JsonObject]) -> Iterator[str]:
    for before, row in pairwise(rows):
        sizes = before.get("global_batch_size"), row.get("global_batch_size")
        if None not in sizes and sizes[0] != sizes[1]:
            yield f"batches of {sizes[1]} samples since step {row['step']}, of {sizes[0]} before"


def _findings(folder: RunFolder, step: int, attempt: int | None) -> Iterator[str]:
    for row in read_lines(folder.findings):
        found: Any = row.get("phase")
        at = found.get("step") if isinstance(found, dict) else None
        if _is_near(at, step) and row.get("code") != "P104" and attempt in (None, row.get("attempt")):
            yield f"{row.get('code')} in step {at}: {str(row.get('message'))[:120]}"


def _attempts(folder: RunFolder, step: int) -> Iterator[str]:
    """Attempts that went on from a save near the step, with what was changed for them."""
    for row in read_lines(folder.attempts):
        saved = row.get("saved_step")
        if row.get("event") == "start" and isinstance(saved, int) and saved > 0 and _is_near(saved + 1, step):
            changed = [str(each) for each in row.get("changed") or ()][:MAX_CHANGED]
            what = f"; changed: {', '.join(changed)}" if changed else ""
            yield f"attempt {row.get('attempt')} began with step {saved + 1} on host {row.get('host')}{what}"
