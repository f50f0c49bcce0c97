"""What the watcher and `profile` add to slower steps from the run's folder."""

import json
from dataclasses import replace

import numpy as np
import pytest

from emberward.cli._profile import _changes_told
from emberward.health import Slowdown
from emberward.lens import slowdown_finding
from emberward.report import LagRows, LagWriter, RunFolder, lag_cells
from emberward.supervise.watcher import with_events

CHANGE, NUM = 40, 80


@pytest.fixture
def folder(tmp_path):
    rows = [{"step": step, "step_s": 0.2 + 0.02 * (step >= CHANGE), "forward_s": 0.1} for step in range(NUM)]
    rows[CHANGE] |= {"save_blocked_s": 0.5}
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return RunFolder(path=tmp_path)


def write_lag(folder, lag_s, *, more_s=0.0):
    """What the watcher of two ranks wrote: how far each is behind their median, and steps longer by `more_s` since."""
    length_s = 0.2 + more_s * (np.arange(NUM) >= CHANGE)
    cells = lag_cells(lag_s)
    rows = LagRows(
        level=1, ranks=(0, 1), programs=("p",), program_of=(0, 0), steps=np.arange(NUM),
        length_s=length_s.astype(np.float32), middle_s=np.full((NUM, 1), 0.15, dtype=np.float32),
        most=cells, mean=cells,
    )  # fmt: skip
    LagWriter(folder.lag, "node0").write(rows)


def test_the_watcher_tells_what_the_folder_has_of_the_steps_around_the_change(folder):
    finding = slowdown_finding(Slowdown(first_step=CHANGE, step=CHANGE + 1, level_s=0.2, now_s=0.22))
    assert with_events(finding, folder).evidence == (
        *finding.evidence,
        f"beside it: training waited for a save for 0.50 s, in step {CHANGE}",
    )
    far = slowdown_finding(Slowdown(first_step=CHANGE + 9, step=CHANGE + 10, level_s=0.2, now_s=0.22))
    other = replace(finding, code="H140")
    assert (with_events(far, folder), with_events(other, folder)) == (far, other)


@pytest.mark.parametrize("late", [True, False])
def test_a_run_that_was_not_profiled_names_the_rank_by_what_its_watcher_wrote(folder, late):
    folder.ranks.mkdir()
    for rank in range(2):
        (folder.ranks / f"rank{rank:05d}.json").write_text(json.dumps({"rank": rank, "host": f"node{rank}"}))
    write_lag(folder, np.array([[0.0, 0.02 * (late and step >= CHANGE)] for step in range(NUM)]))
    (found,) = _changes_told(folder)
    assert (found.phase.step, found.culprit_ranks) == (CHANGE, (1,) if late else ())
    assert (found.waiting_ranks, found.hosts) == (((0,), ("node1",)) if late else ((), ()))
    assert found.evidence[-1] == f"beside it: training waited for a save for 0.50 s, in step {CHANGE}"


def test_of_a_program_without_metrics_the_watched_lengths_count_where_nothing_was_profiled(folder):
    folder.metrics.unlink()
    write_lag(folder, np.zeros((NUM, 2)), more_s=0.02)
    (found,) = _changes_told(folder)
    assert (found.phase.step, found.culprit_ranks) == (CHANGE, ())
    folder.lens.mkdir()
    assert _changes_told(folder) == [], "steps of which some were profiled are not of one length"
