"""How `emberward train` leaves a run that came to its end: as `emberward report` does."""

from dataclasses import replace
from pathlib import Path

import pytest

from emberward.cli._console import Screen
from emberward.cli._report import report_run
from emberward.cli._train import TrainOptions, leave
from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.report import RunFolder, append_line, write_json
from emberward.runs import Intent
from emberward.supervise import AttemptOutcome, LaunchResult

DRIFT = Finding(
    code="R115",
    severity=Severity.ERROR,
    kind=Kind.DRIFT,
    cause=Cause.REPLICA_DRIFT,
    certainty=Certainty.OBSERVED,
    message="copies differ",
)


def left(folder: RunFolder, outcome: AttemptOutcome, code: int) -> int:
    """What `train` exits with."""
    for line in (
        {"event": "start", "attempt": 1},
        {"event": "end", "attempt": 1, "outcome": "failed"},
        {"event": "start", "attempt": 2},
        {"event": "end", "attempt": 2, "outcome": outcome.value},
    ):
        append_line(folder.attempts, line)
    write_json(folder.summary, {"outcome": outcome.value})
    (folder.path / "config.resolved.yaml").touch()
    options = TrainOptions(
        recipe="bloom_tiny", overrides=(), num_ranks=None, runs=Path("runs"), intent=Intent.AUTO, run_id=None,
        is_dry=False, is_checked=True, grace_s=1.0, max_restarts=0, environment={},
    )  # fmt: skip
    result = LaunchResult(outcome=outcome, exit_code=code, attempt=2, seconds=1.0)
    return leave(folder, result, options, Screen(is_json=True))


@pytest.mark.parametrize(
    ("finding", "attempt", "code"),
    [
        (DRIFT, None, 1),
        (DRIFT, 2, 1),
        (DRIFT, 1, 0),
        (replace(DRIFT, severity=Severity.WARNING), 2, 0),
    ],
    ids=["an error", "of the last attempt", "got over", "a warning"],
)
def test_a_run_that_is_done_exits_as_its_report_does(tmp_path, finding, attempt, code):
    folder = RunFolder(path=tmp_path)
    append_line(folder.findings, {**finding.to_json(), **({} if attempt is None else {"attempt": attempt})})
    assert left(folder, AttemptOutcome.DONE, 0) == code
    assert report_run(RunFolder(path=tmp_path), Screen(is_json=True)) == code


def test_a_run_that_was_stopped_asks_to_be_started_again_whatever_was_found(tmp_path):
    append_line(RunFolder(path=tmp_path).findings, DRIFT.to_json())
    assert left(RunFolder(path=tmp_path), AttemptOutcome.STOPPED, 75) == 75
