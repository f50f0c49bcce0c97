"""Lag files: what is written is read, old steps are folded and bounded, damage ends a segment and nothing else."""

import numpy as np
import pytest

from emberward.report import LagRows, LagWriter, lag_cells, lag_seconds, read_lag


def rows(first, number, *, ranks=(0, 1, 2), slow=None):
    lag = np.full((number, len(ranks)), 0.002)
    if slow is not None:
        lag[:, slow] = 0.5
    return LagRows(
        level=1,
        ranks=ranks,
        programs=("p",),
        program_of=(0,) * len(ranks),
        steps=np.arange(first, first + number, dtype=np.int64),
        length_s=np.full(number, 1.0, dtype=np.float32),
        middle_s=np.full((number, 1), 0.25, dtype=np.float32),
        most=lag_cells(lag),
        mean=lag_cells(lag),
    )


def test_a_cell_keeps_seconds_to_four_percent_and_knows_what_it_does_not_know():
    values = np.array([np.nan, -1.0, 0.0, 0.0002, 0.01, 1.0, 999.0, 1e9])
    back = lag_seconds(lag_cells(values))
    assert np.isnan(back[0])
    assert back[1] == back[2] == 0.0
    assert back[3:7] == pytest.approx(values[3:7], rel=0.04)
    assert back[7] == pytest.approx(1000, rel=0.04)


def test_what_was_written_is_read_back(tmp_path):
    writer = LagWriter(tmp_path / "lag", "node/../1")
    writer.write(rows(1, 5, slow=2))
    # The next attempt's watcher goes on in the same file.
    LagWriter(tmp_path / "lag", "node/../1").write(rows(6, 3))
    found = read_lag(tmp_path / "lag")
    assert [each.steps.tolist() for each in found] == [[1, 2, 3, 4, 5, 6, 7, 8]]
    assert lag_seconds(found[0].most)[0, 2] == pytest.approx(0.5, rel=0.04)
    assert [path.parent for path in tmp_path.rglob("*.lag")] == [tmp_path / "lag"]


def test_old_steps_are_folded_keep_their_greatest_lag_and_stay_bounded(tmp_path):
    writer = LagWriter(tmp_path / "lag", "a")
    for first in range(0, 1024 * 120, 1024):
        writer.write(rows(first, 1024, slow=1 if first == 1024 * 3 else None))
    found = read_lag(tmp_path / "lag")
    assert {each.level for each in found} == {1, 16, 256}
    assert len(list((tmp_path / "lag").iterdir())) <= 15
    coarse = [each for each in found if each.level == 256]
    # Which steps were slow is known to a group of them.
    slow = [
        step
        for each in coarse
        for step, cells in zip(each.steps, each.most, strict=True)
        if lag_seconds(cells)[1] > 0.4
    ]
    assert slow == [1024 * 3 + 255, 1024 * 3 + 511, 1024 * 3 + 767, 1024 * 3 + 1023]
    steps = sorted({int(step) for each in found if each.level == 1 for step in each.steps})
    assert steps == list(range(1024 * 115, 1024 * 120))


def test_damage_ends_its_segment_and_nothing_else(tmp_path):
    folder = tmp_path / "lag"
    LagWriter(folder, "a").write(rows(1, 4))
    LagWriter(folder, "b").write(rows(1, 4, ranks=(3, 4)))
    broken = next(folder.glob("a-*"))
    data = bytearray(broken.read_bytes())
    whole = bytes(data)
    for cut in range(0, len(whole), 7):
        broken.write_bytes(whole[:cut])
        assert [each.ranks for each in read_lag(folder)] == [(3, 4)]
    data[-1] ^= 1
    broken.write_bytes(bytes(data))
    assert [each.ranks for each in read_lag(folder)] == [(3, 4)]
    broken.write_bytes(whole)
    assert sorted(each.ranks for each in read_lag(folder)) == [(0, 1, 2), (3, 4)]


def test_the_newest_steps_are_read_from_the_end_alone(tmp_path):
    for host in ("a", "b"):
        writer = LagWriter(tmp_path / "lag", host)
        for first in range(0, 3 * 1024, 256):
            writer.write(rows(first, 256))
    newest = read_lag(tmp_path / "lag", newest=100)
    assert len(list((tmp_path / "lag").glob("*.lag"))) == 6
    assert sorted({int(step) for rows in newest for step in rows.steps}) == list(range(2048, 3072))
    assert len(read_lag(tmp_path / "lag", newest=1025)) == 2 * len(newest)
