"""The loss curve of a program that writes no metrics: which of its curves is shown, and what the run's folder gets."""

import json

import pytest

from emberward.report import RunFolder, read_glance, read_run, run_text
from emberward.supervise._losses import LossLog, shown_curve
from emberward.web import Columns

PRINTED, COUNTED, FILE = (
    "loss, printed by rank 0, by step",
    "loss, printed by rank 0, by value",
    "loss, in a.csv, by step",
)


@pytest.mark.parametrize(
    ("counts", "now", "shown"),
    [
        ({}, None, None),
        ({PRINTED: 1}, None, None),
        ({PRINTED: 2}, None, PRINTED),
        ({COUNTED: 9, FILE: 5}, None, FILE),
        ({COUNTED: 9, FILE: 4}, None, COUNTED),
        ({PRINTED: 10, FILE: 19}, PRINTED, PRINTED),
        ({PRINTED: 10, FILE: 20}, PRINTED, FILE),
    ],
)
def test_the_curve_with_the_most_values_is_shown_and_changes_only_for_one_of_twice_as_many(counts, now, shown):
    assert shown_curve(counts, now) == shown


class Job:
    """A ring folder into which one process notes its lines, and the log of its run."""

    def __init__(self, place):
        self.rings = place / "rings"
        self.rings.mkdir()
        self.folder = RunFolder(path=place / "runs" / "job" / "20261123-100000-ab12")
        self.folder.path.mkdir(parents=True)
        self.log = LossLog(self.rings, self.folder)

    def say(self, *notes):
        with (self.rings / "captured-7-1.jsonl").open("a") as file:
            for note in notes:
                note = {"line": note} if isinstance(note, str) else note
                file.write(json.dumps({"rank": 0, **note}) + "\n")
        while self.log.take():
            pass

    def rows(self):
        return [(row["step"], row["loss"]) for row in map(json.loads, self.folder.logged.read_text().splitlines())]


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path)


def test_the_curve_grows_is_replaced_by_a_fuller_one_and_goes_on_in_the_next_attempt(job, tmp_path):
    job.say("step 10 loss 2.5")
    assert not job.folder.logged.exists()
    job.say("step 20 loss 2.25", "step 20 loss scale 65536", "step 20: val loss 3.5")
    assert job.rows() == [(10, 2.5), (20, 2.25)]
    columns = Columns(job.folder)
    assert columns.poll() == 2
    table = tmp_path / "log.csv"
    table.write_text("step,loss\n" + "".join(f"{step},2.0\n" for step in range(1, 21)))
    job.say({"file": str(table), "at": 0})
    assert job.rows() == [(step, 2.0) for step in range(1, 21)]
    columns.poll()
    assert (list(columns.steps), columns.generation > 0) == (list(range(1, 21)), True)
    job.log = LossLog(job.rings, job.folder)
    with table.open("a") as file:
        file.write("21,nan\n")
    job.say({"file": str(table), "at": table.stat().st_size - len("21,nan\n")})
    assert job.rows()[-1] == (21, None)
    columns.poll()
    assert columns.bad == [21]


def test_a_loss_that_stays_not_finite_is_told_once_with_its_first_step_and_a_single_one_is_not(job):
    job.say("step 1 loss 2.5", "step 2 loss inf", "step 3 loss 2.4", "step 4 loss nan", "step 5 loss nan")
    assert job.log.new_findings() == ()
    job.say(*(f"step {step} loss nan" for step in range(6, 20)))
    (finding,) = job.log.new_findings()
    assert finding.code == "R101"
    assert finding.message == "the loss that the program logs is not finite since step 4"
    assert job.log.new_findings() == ()
    assert "2.5000 -> not finite" in run_text(read_run(job.folder))
    job.log = LossLog(job.rings, job.folder)
    assert job.log.new_findings() == ()


def test_page_report_and_glance_have_it_and_say_whose_it_is(job):
    job.say(*(f"step {step} loss {2.5 - step / 10}" for step in range(5)), "step 4: val loss 3.5")
    glance = read_glance(job.folder, now_unix=0.0)
    assert (glance.loss, glance.logged, glance.last_step_unix) == (2.1, PRINTED, None)
    report = read_run(job.folder)
    assert (report.loss_first, report.loss_last, len(report.losses)) == (2.5, 2.1, 5)
    assert report.evals == {"val loss": {"loss": 3.5}}


def test_a_program_that_writes_metrics_of_ours_is_shown_by_these(job):
    job.say("step 1 loss 2.5", "step 2 loss 2.5")
    job.folder.metrics.write_text('{"step": 7, "loss": 1.0}\n')
    assert read_glance(job.folder, now_unix=0.0).loss == 1.0
    assert read_glance(job.folder, now_unix=0.0).logged is None
