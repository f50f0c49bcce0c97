"""A spare takes the place of a host that is slow for long enough, once for the same ranks, and only where one is."""

import dataclasses
from pathlib import Path

import pytest

from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.report import RunFolder, write_json
from emberward.supervise import Host, LaunchPlan, Team, launcher_of
from emberward.supervise._launch_hosts import STOP_FILE, HostsAttempt, leaving_finding
from emberward.supervise._policy import AttemptOutcome
from emberward.supervise._restart import AttemptEnd, decide_restart
from emberward.supervise._signals import StopAsked

SLOW = Finding(
    code="H143",
    severity=Severity.WARNING,
    kind=Kind.LINK,
    cause=Cause.SLOW_LINK,
    certainty=Certainty.OBSERVED,
    message="the link of host b is slow: what it sends takes 70 ms, between others 34 ms",
    culprit_ranks=(1,),
    waiting_ranks=(0,),
    hosts=("b",),
)
A, B, C = (Host(name=name, address=name) for name in "abc")
TEAM = Team(hosts=(A, B), spares=(C,), ranks_per_host=1, min_hosts=2, launcher=launcher_of("local"))


class Told:
    """An overseer that keeps what is reported."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []

    def report(self, finding: Finding) -> None:
        self.findings.append(finding)


def attempt_in(folder: Path, told: Told, **more) -> HostsAttempt:
    """An attempt of TEAM that takes a spare for a host that is slow for 60 s."""
    plan = LaunchPlan(
        folder=RunFolder(path=folder), num_ranks=2, command=(), environment={}, why="new", replace_slow_s=60.0, **more
    )
    return HostsAttempt(plan, TEAM, told, StopAsked(), on_progress=None, on_finding=told.report)


def after(folder: Path, seconds: float, *findings: Finding, holds: str = "H143", **more) -> list[str]:
    """What is told at once and `seconds` later, with a limit of 60 s, while a supervisor holds `holds`."""
    host = folder / "hosts" / "a" / "1"
    host.mkdir(parents=True, exist_ok=True)
    write_json(host / "supervisor.json", {"state": "runs", "holds": [holds]})
    told = Told()
    attempt = attempt_in(folder, told, **more)
    attempt.found += findings
    for now_s in (100.0, 100.0 + seconds):
        attempt.leave_slow_host(now_s=now_s)
    assert (folder / STOP_FILE).exists() == bool(told.findings)
    return [finding.code for finding in told.findings]


def test_a_spare_takes_the_place_of_a_slow_host_in_these_words(tmp_path):
    assert after(tmp_path, 61.0, SLOW) == ["L124"]
    found = leaving_finding(SLOW, 60.0)
    assert (found.code, found.severity, found.hosts) == ("L124", Severity.NOTICE, ("b",))
    assert found.message == f"a spare takes the place of b, slow for 60 s: {SLOW.message}"
    assert found.next == "emberward doctor --hosts b; it takes no part in this launch any more"


@pytest.mark.parametrize(
    ("seconds", "finding", "more"),
    [
        (59.0, SLOW, {}),
        (61.0, SLOW, {"holds": "H144"}),
        (61.0, SLOW, {"known_slow": frozenset({(1,)})}),
        (61.0, dataclasses.replace(SLOW, hosts=("a", "b")), {}),
        (61.0, dataclasses.replace(SLOW, hosts=("elsewhere",)), {}),
        (61.0, dataclasses.replace(SLOW, code="H140"), {"holds": "H140"}),
    ],
    ids=["not for long", "not any more", "slow on the spare too", "two hosts", "not of this team", "one rank"],
)
def test_what_costs_no_host_its_place(tmp_path, seconds, finding, more):
    assert after(tmp_path, seconds, finding, **more) == []


@pytest.mark.parametrize(
    ("codes", "seconds", "files", "code"),
    [
        ({"a": 1, "b": -9}, 61.0, ["summary.json"], 0),
        ({"a": 1, "b": 1}, 61.0, ["summary.json"], 0),
        ({"a": 1, "b": -9}, 61.0, [], 1),
        ({"a": 1, "b": -9}, 61.0, ["summary.json", "failures/rank0.json"], 1),
        ({"a": -9, "b": 0}, 61.0, ["summary.json"], -9),
        ({"a": 1, "b": -9}, 59.0, ["summary.json"], 1),
    ],
    ids=["given up", "silent", "before the save", "a rank failed", "another host", "not to be left"],
)
def test_a_host_that_is_left_and_falls_silent_after_the_save_makes_no_failure(tmp_path, codes, seconds, files, code):
    told = Told()
    attempt = attempt_in(tmp_path, told)
    host = tmp_path / "hosts" / "a" / "1"
    host.mkdir(parents=True)
    write_json(host / "supervisor.json", {"state": "runs", "holds": ["H143"]})
    attempt.found.append(SLOW)
    for now_s in (100.0, 100.0 + seconds):
        attempt.leave_slow_host(now_s=now_s)
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write_json(tmp_path / name, {})
    assert attempt.code_of(codes) == code


def test_an_attempt_that_stopped_for_a_slow_host_uses_up_no_restart():
    stopped = AttemptEnd(outcome=AttemptOutcome.STOPPED, codes=("H143",), saved_step=8, has_lost_host=True)
    again = decide_restart([stopped], max_restarts=0)
    assert (again.is_wanted, again.why) == (True, "goes on from the save of step 8")
    assert not decide_restart([dataclasses.replace(stopped, has_lost_host=False)], max_restarts=9).is_wanted
    failed = AttemptEnd(outcome=AttemptOutcome.FAILED, codes=("L102",), saved_step=9)
    assert decide_restart([stopped, failed], max_restarts=1).why == "restart 1 of 1 from the save of step 9"
