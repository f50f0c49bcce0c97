"""The doctor with real child processes behind the probe contract: faults that are planted, and their look-alikes."""

import os
import sys
import time
from pathlib import Path

import pytest

from emberward.doctor import (
    Examination,
    Fleet,
    Runner,
    document_of,
    examine,
    findings_of,
    parse_probe,
    verdicts_of,
)
from emberward.processes import ProcessTree

SIMULATOR = Path(__file__).with_name("simulator.py")


def examined(
    *words: str, devices: int = 4, hosts: int = 1, budget_s: float = 60.0, limit_s: float = 20.0
) -> Examination:
    names = [f"h{number}" for number in range(hosts)]
    command = " ".join((sys.executable, "-S", str(SIMULATOR), *words))
    with ProcessTree() as tree:
        runner = Runner(
            fleet=Fleet.of(names, devices),
            tree=tree,
            reach=None,
            environment=dict(os.environ),
            limit_s=limit_s,
        )
        return examine(runner, [parse_probe(f"sim={command}")], budget_s=budget_s, seed=1)


def accused(examination: Examination) -> list[tuple[str, tuple[str, ...], tuple[tuple[str, str], ...]]]:
    return [(each.kind, each.devices, each.links) for each in verdicts_of(examination)]


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        ("segfault", "segfault"),
        ("together", "bit_flip"),
        ("now_and_then", "bit_flip"),
        ("rubbish", "unknown"),
        ("no_value", "unknown"),
    ],
)
def test_a_device_that_fails_is_named_with_its_cause(fault, cause):
    examination = examined(fault, "h0:2")
    assert accused(examination) == [("device", ("h0:2",), ())]
    assert findings_of(examination)[0].cause == cause


def test_a_device_that_hangs_and_ignores_sigterm_is_named_and_its_processes_are_gone():
    began_s = time.monotonic()
    examination = examined("hang", "h0:1", limit_s=2.0)
    assert accused(examination) == [("device", ("h0:1",), ())]
    assert findings_of(examination)[0].cause == "device_stall"
    assert time.monotonic() - began_s < 60


def test_a_probe_that_fills_the_disk_is_ended_and_what_it_wrote_is_gone(tmp_path):
    command = f"{sys.executable} -S {SIMULATOR} fills h0:1"
    with ProcessTree() as tree:
        runner = Runner(
            fleet=Fleet.of(["h0"], 2), tree=tree, reach=None, environment={**os.environ, "TMPDIR": str(tmp_path)},
            limit_s=30.0, max_bytes=1 << 20,
        )  # fmt: skip
        (result,) = runner.run(parse_probe(f"sim={command}"), [(0, 1)], until_s=time.monotonic() + 60)
    assert result.reports[1] == "wrote too much"
    assert result.seconds < 30
    assert not list(tmp_path.rglob("filling"))


def test_a_host_that_vanishes_in_a_test_is_named_as_down():
    def reach(host, words):
        return ("sh", "-c", "sleep 0.2; echo Connection closed by remote host >&2; exit 255") if host == "c" else words

    with ProcessTree() as tree:
        runner = Runner(
            fleet=Fleet.of(list("abcd"), 1), tree=tree, reach=lambda host, words: tuple(reach(host, words)),
            environment=dict(os.environ), limit_s=20.0,
        )  # fmt: skip
        probe = parse_probe(f"sim={sys.executable} -S {SIMULATOR} none")
        examination = examine(runner, [probe], budget_s=60.0, seed=1)
    assert accused(examination) == [("device", ("c:0",), ())]
    finding = findings_of(examination)[0]
    assert (finding.hosts, finding.cause) == (("c",), "host_down")
    assert "host not reached: Connection closed by remote host" in finding.evidence[0]


@pytest.mark.parametrize("share", [5, 20, 50])
def test_a_slow_device_is_named_by_its_numbers(share):
    examination = examined(f"slow{share}", "h0:3", devices=6)
    verdicts = verdicts_of(examination)
    assert [each.devices for each in verdicts] == [("h0:3",)]
    assert verdicts[0].slow_by == pytest.approx(share / 100, abs=0.02)


def test_a_link_is_told_from_its_ends(tmp_path):
    examination = examined("link", str(tmp_path), "h0:1", "h0:2")
    assert accused(examination) == [("link", (), (("h0:1", "h0:2"),))]


def test_two_faults_at_once_are_both_named():
    examination = examined("two", "h0:1", "h0:4", devices=6)
    assert sorted(each.devices for each in verdicts_of(examination)) == [("h0:1",), ("h0:4",)]


@pytest.mark.parametrize("words", [("none",), ("busy", "h0:0"), ("noise", "h0:2"), ("forks",)])
def test_look_alikes_are_not_accused(words):
    examination = examined(*words, budget_s=3.0)
    assert accused(examination) == []
    assert [finding.code for finding in findings_of(examination)] == ["E108"]


def test_a_slow_start_is_not_accused(tmp_path):
    examination = examined("slow_start", str(tmp_path), budget_s=4.0)
    assert accused(examination) == []


def test_processes_that_a_probe_leaves_behind_are_ended():
    assert examined("forks", budget_s=2.0, devices=2).left_behind > 0


@pytest.mark.parametrize("fault", ["rubbish", "broken"])
def test_a_probe_that_fails_everywhere_accuses_no_device(fault):
    examination = examined(fault)
    assert accused(examination) == []
    assert [finding.code for finding in findings_of(examination)] == ["E106"]


def test_a_probe_that_we_may_not_start_accuses_no_device_and_says_why(tmp_path):
    command = tmp_path / "probe"
    command.write_text("#!/bin/sh\n")
    with ProcessTree() as tree:
        runner = Runner(
            fleet=Fleet.of(["h0"], 4), tree=tree, reach=None, environment=dict(os.environ), limit_s=20.0
        )  # fmt: skip
        examination = examine(runner, [parse_probe(f"sim={command}")], budget_s=60.0, seed=1)
    assert accused(examination) == []
    (found,) = findings_of(examination)
    assert (found.code, found.evidence) == ("E106", ("h0:0: cannot be started: Permission denied",))


def test_the_document_lists_every_test():
    examination = examined("segfault", "h0:2")
    document = document_of(examination)
    assert {"round", "set", "outcome", "seconds", "probe", "value", "unit", "members"} == set(document["tests"][0])
    assert len(document["tests"]) == len(examination.plans[0].results)
    failed = [test for test in document["tests"] if test["outcome"] == "fail"]
    assert all("h0:2" in test["set"] for test in failed)
    assert "killed by SIGSEGV" in failed[0]["members"]["h0:2"]
