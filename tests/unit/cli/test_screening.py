"""`train --screen`: who starts, who is left out, and when nothing may start. The tests themselves are stood in for."""

import dataclasses

import pytest

from emberward.cli._console import Screen
from emberward.cli._examination import Asked, Examined, Ground
from emberward.cli._screening import Screening
from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.report import RunFolder, read_json, write_json
from emberward.runs import left_out
from emberward.supervise import Team, hosts_of, launcher_of

BAD = Finding(
    code="E101",
    severity=Severity.ERROR,
    kind=Kind.DEVICE,
    cause=Cause.SEGFAULT,
    certainty=Certainty.OBSERVED,
    message="device b:0 fails (probe soak)",
    hosts=("b",),
    devices=("b:0",),
)


def a_team(hosts: str, *, wanted: int, least: int) -> Team:
    found = hosts_of(hosts)
    return Team(
        hosts=found[:wanted], spares=found[wanted:], ranks_per_host=1, min_hosts=least,
        launcher=launcher_of("env SIMULATED={host}"),
    )  # fmt: skip


@pytest.fixture
def screening(tmp_path):
    """A screening whose examination finds `findings`; what it was asked is in `asked`."""
    asked: list[tuple[Ground, Asked]] = []

    def make(*findings: Finding) -> Screening:
        def examine(ground, how, screen):
            asked.append((ground, how))
            return Examined(findings=findings, told={}, examination=None)

        folder = RunFolder(path=tmp_path / "runs" / "tiny" / "1")
        return Screening(folder, {}, Screen(is_json=True), is_asked=True, examine=examine)

    make.asked = asked
    return make


def names(team: Team) -> list[str]:
    return [host.name for host in team.hosts]


def test_a_spare_takes_the_place_of_a_bad_host(screening, tmp_path):
    team, bad = screening(BAD).before_start(a_team("a,b,c", wanted=2, least=2))
    assert (names(team), bad, list(left_out(tmp_path / "runs"))) == (["a", "c"], (), ["b"])
    assert (read_json(tmp_path / "runs/tiny/1/doctor.json") or {})["findings"][0]["code"] == "E101"
    ((ground, asked),) = screening.asked
    assert ground.hosts == ("a", "b", "c"), "spares are tested too"
    assert (asked.is_quick, asked.budget_s < 30) == (True, True)


def test_nothing_starts_where_nobody_takes_the_place(screening):
    team, bad = screening(BAD).before_start(a_team("a,b", wanted=2, least=2))
    assert (names(team), bad) == (["a", "b"], (BAD,))


def test_a_bad_spare_stops_nothing(screening):
    team, bad = screening(BAD).before_start(a_team("a,c,b", wanted=2, least=2))
    assert (names(team), names(dataclasses.replace(team, hosts=team.spares)), bad) == (["a", "c"], [], ())


@pytest.mark.parametrize("change", [{"cause": Cause.UNKNOWN}, {"code": "E106", "hosts": (), "devices": ()}])
def test_what_may_be_a_programs_fault_leaves_nobody_out(screening, tmp_path, change):
    finding = dataclasses.replace(BAD, **change)
    team, _ = screening(finding).before_start(a_team("a,b,c", wanted=2, least=2))
    assert (names(team), left_out(tmp_path / "runs")) == (["a", "b"], {})


def test_after_a_failure_those_whom_the_judge_named_are_tested_first(screening, tmp_path):
    made = screening(BAD)
    folder = RunFolder(path=tmp_path / "runs" / "tiny" / "1")
    folder.ranks.mkdir(parents=True)
    for rank, host in enumerate("ab"):
        write_json(folder.rank_file(rank), {"rank": rank, "host": host})
    folder.findings.write_text('{"severity": "error", "culprit_ranks": [1]}\n')
    assert made.after_failure(a_team("a,b,c", wanted=2, least=1), ["c"]) == ["b"]
    ((ground, asked),) = screening.asked
    assert (ground.hosts, asked.suspects) == (("a", "b"), {"b"})


def test_on_this_machine_a_bad_device_lets_nothing_start(screening):
    team, bad = screening(BAD).before_start(None)
    assert (team, bad) == (None, (BAD,))
