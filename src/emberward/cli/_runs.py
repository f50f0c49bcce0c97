"""``emberward runs``: every run below a folder with its state, last step, loss, start, and why it ended."""

import time
from pathlib import Path

from emberward.cli._console import Screen
from emberward.report import RunRow, find_runs, read_row, row_state, rows_text
from emberward.supervise import is_abandoned, silence_finding


def word_of(row: RunRow, *, now_unix: float) -> str:
    """The run's state, in the word that its page has."""
    is_open = row.outcome is None
    is_alone = is_open and (is_abandoned(row.folder) or silence_finding(row.folder, now_unix=now_unix) is not None)
    return row_state(row, is_alone=is_alone, now_unix=now_unix).value


def list_runs(runs: Path, screen: Screen, *, limit: int | None) -> int:
    """Shows the runs below `runs`, the one that started last first; 0. With `limit`, that many of them."""
    now_unix = time.time()
    rows = sorted((read_row(folder) for folder in find_runs(runs)), key=lambda row: row.started_unix, reverse=True)
    shown = [(row, word_of(row, now_unix=now_unix)) for row in rows[:limit]]
    if not rows:
        screen.say(f"no runs in {runs}/")
    else:
        screen.say(rows_text(shown, now_unix=now_unix, width=screen.width))
    if len(shown) < len(rows):
        screen.say(f"and {len(rows) - len(shown)} older runs: --all shows them")
    screen.document([], runs=[row.to_json(state=state) for row, state in shown], num_runs=len(rows))
    return 0
