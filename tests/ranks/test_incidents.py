"""Known disasters are told rightly when they happen for real, and their healthy twins raise no alarm.

`tools/campaign_incidents.py` runs every incident; here are those that no other test shows as a whole.
"""

import os

import pytest

from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.testing import INCIDENTS, Expected, Incident, IncidentRunner, Replayed, show

BY_NAME = {incident.name: incident for incident in INCIDENTS}


LIMIT_S = 220.0
"""Beside the other lanes of tests, which leave the ranks of a job a fraction of the processors."""


def theatre(path, told: list[str]) -> IncidentRunner:
    return IncidentRunner(folder=path, environment=dict(os.environ), tell=told.append, limit_s=LIMIT_S)


@pytest.mark.parametrize("is_twin", [False, True], ids=["disaster", "twin"])
@pytest.mark.parametrize("name", ["swin-buffer-deadlock", "swin-lost-tensor-id", "bloom-limbo"])
def test_an_incident_and_its_twin_are_told_rightly(tmp_path, name, is_twin):
    told: list[str] = []
    showing = show(BY_NAME[name], theatre(tmp_path, told), is_twin=is_twin)
    assert showing.wrong == (), "\n".join(told)
    assert any(finding.severity is Severity.ERROR for finding in showing.findings) is not is_twin


def test_the_hung_evaluation_of_bloom_names_its_rank_and_the_worker_s_line(tmp_path):
    told: list[str] = []
    showing = show(BY_NAME["bloom-eval-hang"], theatre(tmp_path, told), is_twin=False)
    assert showing.wrong == (), "\n".join(told)


@pytest.mark.parametrize("is_twin", [False, True], ids=["disaster", "twin"])
def test_the_real_swin_hangs_under_the_published_plan_and_trains_under_the_repaired_one(tmp_path, is_twin):
    told: list[str] = []
    showing = show(BY_NAME["swin-pipeline-deadlock"], theatre(tmp_path, told), is_twin=is_twin)
    assert showing.wrong == (), "\n".join(told)


def test_a_native_call_that_keeps_the_interpreter_is_told_with_its_rank_and_line(tmp_path):
    told: list[str] = []
    showing = show(BY_NAME["gil-holder"], theatre(tmp_path, told), is_twin=False)
    assert showing.wrong == (), "\n".join(told)


@pytest.mark.parametrize("is_twin", [False, True], ids=["disaster", "twin"])
def test_a_loss_that_is_printed_in_each_step_is_named_by_the_profile(tmp_path, is_twin):
    told: list[str] = []
    showing = show(BY_NAME["print-loss-stall"], theatre(tmp_path, told), is_twin=is_twin)
    assert showing.wrong == (), "\n".join(told)
    assert len(showing.findings) == (not is_twin)


@pytest.mark.parametrize("is_twin", [False, True], ids=["disaster", "twin"])
def test_sharding_that_halves_the_speed_is_named_by_the_profile_with_each_of_its_causes(tmp_path, is_twin):
    told: list[str] = []
    showing = show(BY_NAME["zero3-half-speed"], theatre(tmp_path, told), is_twin=is_twin)
    assert showing.wrong == (), "\n".join(told)


def finding(**changes) -> Finding:
    values = {
        "code": "L102", "severity": Severity.ERROR, "kind": Kind.CRASH, "cause": Cause.KILLED,
        "certainty": Certainty.OBSERVED, "message": "rank 2 died", "culprit_ranks": (2,),
        "site": "train.py:7", "next": "mend it",
    }  # fmt: skip
    return Finding(**{**values, **changes})


def played(*findings: Finding, facts: tuple[str, ...] = ()) -> Incident:
    return Incident(
        name="made up",
        what="none",
        source="none",
        story="none",
        seconds=0,
        expected=Expected(codes=("L102",), causes=(Cause.KILLED,), culprit_ranks=(2,), site="train.py"),
        replay=lambda _: Replayed(findings=findings, broken_facts=facts),
        twin=lambda _: Replayed(findings=findings),
    )


@pytest.mark.parametrize(
    ("incident", "is_twin", "wrong"),
    [
        (played(finding()), False, ()),
        (played(finding(), finding(code="M101")), False, ("a further error: M101 rank 2 died",)),
        (played(), False, ("no error was found; expected L102",)),
        (played(finding(culprit_ranks=(1,))), False, ("expected culprits [2], found [1]",)),
        (played(finding(cause=Cause.UNKNOWN)), False, ("expected cause killed, found unknown",)),
        (played(finding(code="L105")), False, ("expected L102, found L105",)),
        (played(finding(site="other.py:7")), False, ("expected a line of train.py, found other.py:7",)),
        (played(finding(), facts=("it did not end",)), False, ("it did not end",)),
        (played(finding(severity=Severity.NOTICE)), True, ()),
        (played(finding()), True, ("the twin raised an alarm: L102 rank 2 died",)),
    ],
)
def test_a_wrong_verdict_is_seen(tmp_path, incident, is_twin, wrong):
    assert show(incident, theatre(tmp_path, []), is_twin=is_twin).wrong == wrong
