"""Who is waited for goes from the watcher's steps into the run's folder, compared among ranks of one program alone."""

import numpy as np
import pytest

from emberward.report import lag_seconds, read_lag
from emberward.sources.live import OwnRows
from emberward.supervise._lag import LagLog, lag_rows

ROWS = OwnRows(
    steps=(7, 8),
    length_s=(1.0, 1.2),
    # Ranks 0 to 2 run one program, 3 and 4 another that is slower by plan.
    own_s={0: (0.1, 0.1), 1: (0.1, 0.5), 2: (0.1, 0.1), 3: (0.7, 0.7), 4: (0.7, 0.7)},
    programs={0: "a", 1: "a", 2: "a", 3: "b", 4: "b"},
)


def test_a_rank_is_compared_with_those_that_run_its_program():
    rows = lag_rows(ROWS)
    lag = lag_seconds(rows.most)
    assert lag[1, 1] == pytest.approx(0.4, rel=0.04)
    lag[1, 1] = 0.0
    assert np.all(lag == 0.0)
    assert rows.middle_s == pytest.approx(np.array([[0.1, 0.7], [0.1, 0.7]]))


def test_the_log_is_read_back_and_a_disk_that_refuses_stops_nothing(tmp_path):
    LagLog(tmp_path / "lag", "node").take(ROWS)
    LagLog(tmp_path / "lag", "node").take(None)
    assert [each.steps.tolist() for each in read_lag(tmp_path / "lag")] == [[7, 8]]
    (tmp_path / "file").write_text("")
    LagLog(tmp_path / "file" / "lag", "node").take(ROWS)
    assert read_lag(tmp_path / "file" / "lag") == []
