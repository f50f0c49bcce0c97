"""The map of lag from the files of many hosts: which cell says what."""

import base64

import numpy as np
import pytest

from emberward.report import LagRows, LagWriter, RunFolder, lag_cells
from emberward.web._lag import lag_json, lag_sentence, map_rows, read_table

A_HOST = 8


def write(folder, host, steps, *, lag=0.0, middle_s=0.3, program="a"):
    cells = lag_cells(np.broadcast_to(np.asarray(lag, dtype=np.float64), (len(steps), A_HOST)))
    LagWriter(folder.lag, f"node-{host}").write(
        LagRows(
            level=1,
            ranks=tuple(range(host * A_HOST, (host + 1) * A_HOST)),
            programs=(program,),
            program_of=(0,) * A_HOST,
            steps=np.array(steps, dtype=np.int64),
            length_s=np.full(len(steps), 0.5, dtype=np.float32),
            middle_s=np.full((len(steps), 1), middle_s, dtype=np.float32),
            most=cells,
            mean=cells,
        )
    )


def cells_of(folder, **bounds):
    found = lag_json(folder, **bounds)
    cells = np.frombuffer(base64.b64decode(found["cells"]), dtype=np.uint8)
    return found, cells.reshape(len(found["rows"]), len(found["steps"]))


@pytest.fixture
def folder(tmp_path):
    return RunFolder(path=tmp_path)


def test_a_host_that_is_late_as_a_whole_is_late_and_one_of_another_program_is_not(folder):
    for host in range(4):
        write(folder, host, range(1, 11), middle_s=0.4 if host == 2 else 0.3)
    write(folder, 4, range(1, 11), middle_s=0.45, program="b")
    table = read_table(folder)
    assert np.nanmax(table.lag_s[:, 16:24]) == np.nanmin(table.lag_s[:, 16:24]) == pytest.approx(0.1, rel=0.05)
    assert np.nanmax(np.delete(table.lag_s, range(16, 24), axis=1)) == 0
    _, cells = cells_of(folder)
    assert (cells[16:24] > 100).all()
    assert (np.delete(cells, range(16, 24), axis=0) == 1).all()
    assert "10 of the newest 10" in lag_sentence(folder)


def test_a_step_that_was_done_again_is_shown_as_it_was_done_last_and_one_unknown_is_empty(folder):
    write(folder, 0, range(1, 11))
    write(folder, 1, range(1, 11), lag=0.25)
    write(folder, 1, range(6, 9))
    found, cells = cells_of(folder)
    assert found["steps"] == list(range(1, 11))
    assert [cell > 100 for cell in cells[8]] == [step < 6 or step > 8 for step in found["steps"]]
    write(folder, 0, range(11, 13))
    assert cells_of(folder)[1][8][-2:].tolist() == [0, 0]
    assert cells_of(folder, low=3, high=5)[0]["steps"] == [3, 4, 5]
    assert lag_json(folder, low=100) is None


def test_of_more_ranks_and_steps_than_cells_the_greatest_lag_of_each_group_is_kept(folder):
    lag = np.zeros((1500, A_HOST))
    lag[1234, 5] = 0.25
    for host in range(150):
        write(folder, host, range(1, 1501), lag=lag if host == 77 else 0.0)
    found, cells = cells_of(folder)
    assert cells.shape == (450, 512), "three rows a host: no row has ranks of two"
    rows, columns = np.nonzero(cells > 1)
    assert len(rows) == 1
    assert found["rows"][rows[0]] == f"ranks {77 * A_HOST + 3} to {77 * A_HOST + 5}"
    assert found["worst"][rows[0]] == 77 * A_HOST + 5
    assert found["hosts"][77] == [77 * 3, "node-77"]
    assert "of the newest 256 rows" in found["words"]
    assert found["steps"][columns[0] - 1] < 1235 <= found["steps"][columns[0]]


def test_rows_are_parts_of_a_host_or_whole_hosts_and_few_enough():
    few = map_rows({0: "b", 1: "a", 2: "b"})
    assert [(row.name, row.hosts) for row in few] == [("rank 0", "b"), ("rank 2", "b"), ("rank 1", "a")]
    many = map_rows({rank: f"node-{rank // 8:04}" for rank in range(16_384)})
    assert len(many) == 512
    assert (many[1].name, many[1].hosts) == ("ranks 32 to 63", "node-0004 to node-0007")
    one = map_rows(dict.fromkeys(range(1030), "big"))
    assert len(one) <= 512 and {row.hosts for row in one} == {"big"}
    assert sorted(rank for row in one for rank in row.ranks) == list(range(1030))
