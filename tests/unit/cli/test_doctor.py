"""`emberward doctor` with its ledger: strikes, a soak that brings a host back, a run's suspects, its baseline."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from emberward.cli._console import Screen
from emberward.cli._doctor import DoctorOptions, doctor, show_ledger
from emberward.cli._examination import suspects_in
from emberward.cli._hosts import still_out
from emberward.findings import ConfigError
from emberward.report import RunFolder, read_json, write_json
from emberward.runs import left_out, read_record

SIMULATOR = Path(__file__).parents[1] / "doctor" / "simulator.py"
MANY = 3000
"""Tries that one start of the simulator says it made: two rounds of them are enough for a soak."""


def options(tmp_path, *words: str, tries: int = 1, **fields) -> DoctorOptions:
    probe = " ".join((sys.executable, "-S", str(SIMULATOR), *words))
    given = DoctorOptions(
        run=None, hosts="h0,h1,h2,h3", is_slurm=False, budget_s=20.0, probes=(f"sim={probe}",), probe_only=True,
        devices_per_host=1, launcher="env SIMULATED_HOST={host}", probe_limit_s=10.0, topology=None, seed=1,
        runs=tmp_path / "runs", is_compared=False, environment={**os.environ, "SIMULATED_TRIES": str(tries)},
    )  # fmt: skip
    return replace(given, **fields)


def examined(asked: DoctorOptions, capsys) -> tuple[int, dict]:
    code = doctor(asked, Screen(is_json=True))
    return code, json.loads(capsys.readouterr().out)


def test_a_bad_host_is_struck_left_out_soaked_and_admitted(tmp_path, capsys):
    runs = tmp_path / "runs"
    code, said = examined(options(tmp_path, "segfault", "h2:0"), capsys)
    assert (code, [each["code"] for each in said["findings"]]) == (1, ["E101"])
    assert set(said["hosts"]) == {"h0", "h1", "h2", "h3"}, "each host told what it is"
    assert list(left_out(runs)) == ["h2"]
    screen = Screen(is_json=True)
    assert still_out(runs, ["h0", "h1", "h2", "h3"], num_needed=3, screen=screen) == {"h2"}
    assert still_out(runs, ["h0", "h1", "h2", "h3"], num_needed=4, screen=screen) == frozenset()
    code, _ = examined(options(tmp_path, "none", budget_s=1.0), capsys)
    assert (code, list(left_out(runs))) == (0, ["h2"]), "few tries bring nobody back"
    code, _ = examined(options(tmp_path, "none", tries=MANY, budget_s=8.0), capsys)
    assert (code, left_out(runs)) == (0, {})
    examined(options(tmp_path, "segfault", "h2:0"), capsys)
    examined(options(tmp_path, "none", tries=MANY, budget_s=8.0), capsys)
    assert read_record(runs, "h2").needs_a_person
    assert show_ledger(runs, ["h2"], "its card was changed", Screen(is_json=True)) == 0
    (told,) = json.loads(capsys.readouterr().out)["ledger"]
    assert (told["is_out"], told["entries"][-1]["why"]) == (False, "its card was changed")
    with pytest.raises(ConfigError, match="does not know this host"):
        show_ledger(runs, ["h9"], None, Screen(is_json=True))


@pytest.mark.parametrize(
    ("words", "codes"), [(("broken",), ["E106"]), (("busy", "h2:0"), ["E108"]), (("missing", "h2:0"), ["E101"])]
)
def test_no_fault_of_a_program_takes_a_host_out(tmp_path, capsys, words, codes):
    """A probe that fails everywhere, a device in use, a library that one host lacks."""
    _, said = examined(options(tmp_path, *words, budget_s=4.0), capsys)
    assert [each["code"] for each in said["findings"]] == codes
    assert left_out(tmp_path / "runs") == {}


def a_run(tmp_path) -> RunFolder:
    folder = RunFolder(path=tmp_path / "runs" / "tiny" / "20261123-000000-aaaa")
    folder.ranks.mkdir(parents=True)
    folder.command.write_text("{}")
    for rank in range(4):
        write_json(folder.rank_file(rank), {"rank": rank, "host": f"h{rank}"})
    lines = [
        {"event": "start", "attempt": 1}, {"event": "end", "attempt": 1, "outcome": "stopped"},
        {"event": "start", "attempt": 2}, {"event": "end", "attempt": 2, "outcome": "failed"},
    ]  # fmt: skip
    folder.attempts.write_text("".join(json.dumps(line) + "\n" for line in lines))
    findings = [
        {"attempt": 1, "severity": "error", "culprit_ranks": [0]},
        {"attempt": 2, "severity": "error", "culprit_ranks": [3], "hosts": []},
        {"attempt": 2, "severity": "notice", "culprit_ranks": [1]},
    ]
    folder.findings.write_text("".join(json.dumps(line) + "\n" for line in findings))
    return folder


def test_a_runs_suspects_are_examined_first_and_its_page_and_ticket_have_the_table(tmp_path, capsys):
    folder = a_run(tmp_path)
    assert suspects_in(folder) == (("h0", "h1", "h2", "h3"), frozenset({"h3"}))
    code, said = examined(options(tmp_path, "segfault", "h3:0", run=folder.path, hosts=None), capsys)
    assert code == 1
    assert said["tests"][0]["set"] == ["h0:0", "h3:0"]
    kept = read_json(folder.doctor) or {}
    assert (kept["verdicts"], kept["tests"]) == (said["verdicts"], said["tests"])
    assert "E101 device h3:0 fails" in folder.doctor_table.read_text()


def test_what_has_changed_since_a_run_worked_is_told(tmp_path, capsys):
    folder = a_run(tmp_path)
    asked = options(tmp_path, "none", run=folder.path, hosts=None, is_compared=True, budget_s=1.0)
    _, said = examined(asked, capsys)
    assert [each["code"] for each in said["findings"]] == ["E108"], "there is no baseline"
    path = folder.hosts_file(1)
    path.parent.mkdir()
    before = {host: {**told["facts"], "kernel": "4.4"} for host, told in said["hosts"].items()}
    write_json(path, before)
    _, said = examined(asked, capsys)
    changed = said["findings"][-1]
    assert (changed["code"], changed["hosts"]) == ("E110", ["h0", "h1", "h2", "h3"])
    assert changed["message"] == f"since attempt 1 of tiny/{folder.id} worked: kernel"
    assert changed["evidence"][0].startswith("kernel: 4.4 -> ")
    with pytest.raises(ConfigError, match="nothing to compare with"):
        doctor(options(tmp_path, "none", is_compared=True), Screen(is_json=True))
