"""The steps of a program that writes no metrics, as its watcher saw them in the recorded calls."""

from emberward.report._folder import RunFolder
from emberward.report._lag_file import lag_seconds, read_lag
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


def watched_own(folder: RunFolder) -> dict[int, dict[int, float]]:
    """Rank -> step -> seconds of the rank's own part of the step, of the steps that are kept one by one.

    Of a rank that was not behind the median of its host's ranks it is that median. See [Note: lag files].
    """
    found: dict[int, dict[int, float]] = {}
    for rows in read_lag(folder.lag):
        if rows.level == 1:
            own = rows.middle_s[:, list(rows.program_of)] + lag_seconds(rows.most)
            for column, rank in enumerate(rows.ranks):
                seen = zip(rows.steps.tolist(), own[:, column].tolist(), strict=True)
                found.setdefault(rank, {}).update((step, own_s) for step, own_s in seen if own_s == own_s)
    return found
