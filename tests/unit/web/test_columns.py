"""Metrics as columns: whole, growing, cut, and reduced without losing what lasted one step."""

import json
import math

import pytest
from canned_runs import metrics_of, write_metrics

from emberward.report import RunFolder
from emberward.web import Columns


@pytest.fixture
def folder(tmp_path):
    return RunFolder(path=tmp_path)


def read(folder):
    columns = Columns(folder)
    columns.poll()
    return columns


@pytest.mark.parametrize("low", [None, 12_000, 13_700, 13_999])
def test_a_spike_of_one_step_keeps_its_step_and_value_at_every_zoom(folder, low):
    rows = [{"step": step, "loss": 2.0 + step % 7 * 1e-3, "grad_norm": 0.5} for step in range(1, 20_001)]
    rows[13_999] |= {"loss": 17.123456, "grad_norm": 0.0625}
    write_metrics(folder, rows)
    found = read(folder).reduced(low=low, high=None if low is None else low + 2 * (14_000 - low), points=500)
    columns = found["columns"]
    if not found["is_reduced"]:
        assert columns["loss"]["last"][found["step"].index(14_000)] == 17.12346
        return
    place = max(range(len(found["step"])), key=lambda at: columns["loss"]["max"][at])
    assert (columns["loss"]["max"][place], columns["loss"]["max_at"][place]) == (17.12346, 14_000)
    assert (columns["grad_norm"]["min"][place], columns["grad_norm"]["min_at"][place]) == (0.0625, 14_000)
    assert len(found["step"]) <= 500


def test_missing_and_not_finite_values_are_gaps_and_are_named(folder):
    rows = [metrics_of(step, steps=10) for step in range(1, 6)]
    rows[1]["loss"] = None
    del rows[2]["grad_norm"]
    rows[3] |= {"loss": math.nan, "nan": 1}
    write_metrics(folder, rows)
    found = read(folder).reduced()
    assert [each is None for each in found["columns"]["loss"]["last"]] == [False, True, False, True, False]
    assert found["columns"]["grad_norm"]["last"][2] is None
    assert found["bad"] == [2, 4]
    json.dumps(found, allow_nan=False)


def test_a_stretch_without_a_value_is_a_gap_too(folder):
    write_metrics(folder, ({"step": step, "loss": None if 100 < step <= 200 else 1.0} for step in range(1, 301)))
    loss = read(folder).reduced(points=30)["columns"]["loss"]
    assert loss["last"][10:20] == loss["max"][10:20] == [None] * 10
    assert None not in loss["last"][:10] + loss["last"][20:]


def test_what_the_file_got_is_read_on_and_a_half_line_waits(folder):
    write_metrics(folder, [metrics_of(step, steps=10) for step in (1, 2)])
    columns = read(folder)
    with folder.metrics.open("a") as file:
        file.write('{"step": 3, "lo')
    assert columns.poll() == 0
    with folder.metrics.open("a") as file:
        file.write('ss": 1.5}\n')
    assert columns.poll() == 1
    assert columns.since(2)["step"] == [3]
    assert columns.generation == 0


def test_a_resume_that_does_steps_again_gives_another_generation(folder):
    write_metrics(folder, [metrics_of(step, steps=10) for step in range(1, 7)])
    columns = read(folder)
    text = folder.metrics.read_text().splitlines(keepends=True)
    folder.metrics.write_text("".join(text[:4]) + '{"step": 5, "loss": 9.0}\n')
    columns.poll()
    assert columns.reduced()["step"] == [1, 2, 3, 4, 5]
    assert columns.reduced()["columns"]["loss"]["last"][-1] == 9.0
    assert columns.generation > 0


def test_no_file_is_no_step(folder):
    assert read(folder).reduced()["step"] == []
