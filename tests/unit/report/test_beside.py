"""What a run's folder tells of the steps around one."""

import json

import numpy as np
import pytest

from emberward.report import LagRows, LagWriter, RunFolder, events_beside, lag_cells, watched_own


@pytest.fixture
def folder(tmp_path):
    return RunFolder(path=tmp_path)


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_what_happened_within_two_steps_is_told_and_what_is_further_is_not(folder):
    rows = [{"step": step, "step_s": 0.2, "global_batch_size": 32 if step < 41 else 48} for step in range(1, 80)]
    rows[39] |= {"save_blocked_s": 0.31}
    rows[41] |= {"save_s": 2.0}
    rows[49] |= {"save_failed": 1}
    write(folder.metrics, *rows)
    write(folder.evals, {"step": 39, "seconds": 4.0}, {"step": 60, "seconds": 4.0})
    write(
        folder.findings,
        {"code": "R103", "message": "a spike begins", "phase": {"step": 42}},
        {"code": "P104", "message": "steps take longer", "phase": {"step": 41}},
        {"code": "H110", "message": "no step", "phase": {"step": None}},
    )
    write(
        folder.attempts,
        {"event": "start", "attempt": 1, "host": "a", "saved_step": None},
        {"event": "end", "attempt": 1, "saved_step": 40},
        {"event": "start", "attempt": 2, "host": "b", "saved_step": 40, "changed": ["host a -> b"]},
    )
    assert events_beside(folder, 41) == (
        "training waited for a save for 0.31 s, in step 40",
        "a save took 2.00 s until it was whole, in step 42",
        "batches of 48 samples since step 41, of 32 before",
        "an evaluation after step 39",
        "R103 in step 42: a spike begins",
        "attempt 2 began with step 41 on host b; changed: host a -> b",
    )
    assert events_beside(folder, 51) == ("a save that failed, seen in step 50",)
    assert events_beside(folder, 70) == ()


def test_a_folder_without_files_tells_nothing(folder):
    assert (events_beside(folder, 5), watched_own(folder)) == ((), {})


def test_each_rank_s_own_part_is_read_from_what_the_watcher_wrote(folder):
    lag = np.array([[0.0, 0.02], [0.0, np.nan]])
    rows = LagRows(
        level=1, ranks=(0, 1), programs=("p",), program_of=(0, 0), steps=np.array([7, 8]),
        length_s=np.full(2, 0.2, dtype=np.float32), middle_s=np.full((2, 1), 0.15, dtype=np.float32),
        most=lag_cells(lag), mean=lag_cells(lag),
    )  # fmt: skip
    LagWriter(folder.lag, "node0").write(rows)
    own = watched_own(folder)
    assert own[0] == pytest.approx({7: 0.15, 8: 0.15})
    assert own[1] == pytest.approx({7: 0.17}, abs=0.002)
