"""The steps of a program that writes no metrics, as its watcher saw them in the recorded calls."""

from emberward.report._folder import RunFolder
from emberward.report._lag_file import read_lag
from emberward.report._read import JsonObject


def watched_steps(folder: RunFolder, *, newest: int) -> tuple[list[JsonObject], float | None]:
    """The newest steps that watchers saw, with ``step_s``, and when the last was written; ([], None) without any."""
    try:
        last_unix = max((path.stat().st_mtime for path in folder.lag.glob("*.lag")), default=None)
    except OSError:
        return [], None
    if last_unix is None:
        return [], None
    found: dict[int, float] = {}
    for rows in read_lag(folder.lag, newest=newest):
        found |= zip(rows.steps.tolist(), rows.length_s.tolist(), strict=True)
    steps = [{"step": step, "step_s": length_s} for step, length_s in sorted(found.items())[-newest:]]
    return steps, last_unix if steps else None
