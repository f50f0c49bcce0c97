"""Hosts beside each other and beside what they were: which differ, what has changed, who is not reached."""

import dataclasses
import json
import sys
import time

import pytest

from emberward.doctor import HostFacts, ask_hosts_facts, changed_since, host_findings
from emberward.doctor.probe._facts import host_facts, mount_of
from emberward.processes import ProcessTree

SOUND = {"driver": "550.54", "NCCL": "2.21.5", "kernel": "6.8", "mount of /data": "lustre rw", "libc": "glibc 2.36"}


def told(offset_s: float = 0.0, **changes: str) -> HostFacts:
    facts = {name: changes.get(name, value) for name, value in SOUND.items()}
    return HostFacts(facts=facts, offset_s=offset_s, round_trip_s=0.1)


def said(findings) -> list[str]:
    return [f"{each.code} {each.severity.value} {','.join(each.hosts)} {each.message}" for each in findings]


def test_hosts_that_are_alike_are_not_told_and_neither_is_a_clock_within_what_is_known():
    assert host_findings({"a": told(), "b": told(0.17), "c": told(-0.1)}) == ()
    assert host_findings({"a": told(300.0)}) == (), "one host has nobody to differ from"
    partial = dataclasses.replace(told(), facts={"kernel": "6.8"})
    assert host_findings({"a": told(), "b": partial}) == (), "what only some tell is no difference"


def test_the_messages_are_these():
    found = host_findings(
        {"a": told(), "b": told(), "c": told(driver="535.1", libc="glibc 2.31"), "d": told(301.0), "e": told()}
    )
    changed = changed_since({"a": SOUND, "b": SOUND}, {"a": told(NCCL="2.20"), "b": told(NCCL="2.20"), "c": told()},
                            attempt="attempt 3 of tr11/x")  # fmt: skip
    same = changed_since({"a": SOUND}, {"a": told()}, attempt="attempt 3 of tr11/x")
    assert said((*found, changed, same)) == [
        "E109 warning c host c differs from the others: driver, libc",
        "E109 warning d host d differs from the others: clock",
        "E110 warning a,b,c since attempt 3 of tr11/x worked: hosts, NCCL",
        "E110 notice  nothing that hosts tell has changed since attempt 3 of tr11/x",
    ]
    assert found[0].evidence == ("driver: 550.54 on a, b, d, e; 535.1 on c", "libc: glibc 2.36 on a, b, d, e; "
                                 "glibc 2.31 on c")  # fmt: skip
    assert found[0].ruled_out == ("alike on all hosts: NCCL, kernel, mount of /data",)
    assert found[1].evidence == ("clock: +301.0 s from ours, give or take 0.1 s",)
    assert changed.evidence == ("host c was not part of it", "NCCL: 2.21.5 -> 2.20 on a, b")
    assert changed.ruled_out == ("as it was: driver, kernel, libc, mount of /data",)
    assert changed_since({}, {"a": told()}, attempt="x") is None


def test_two_hosts_that_differ_accuse_neither():
    (found,) = host_findings({"a": told(), "b": told(driver="535.1")})
    assert (found.hosts, found.message) == ((), "hosts a, b are not alike: driver")


def ask(*scripts: str):
    hosts = dict(zip("abc", scripts, strict=False))
    with ProcessTree() as tree:
        return ask_hosts_facts(
            tuple(hosts), lambda host: ("sh", "-c", hosts[host]), tree=tree, environment={"PATH": "/usr/bin:/bin"}
        )


def test_a_host_that_is_not_reached_is_named_and_others_tell_their_clock():
    answer = json.dumps({"facts": SOUND, "clock_unix": time.time() + 300})
    found, lost = ask(f"echo a banner; echo '{answer}'", "echo Permission denied >&2; exit 255", "echo '{rubbish'")
    assert list(found) == ["a"]
    assert found["a"].is_off
    assert found["a"].offset_s == pytest.approx(300, abs=10)
    assert [each.message for each in lost] == ["nothing can be started on host b, which is left out"]
    assert [(each.code, each.evidence) for each in lost] == [("E107", ("Permission denied",))]


def test_a_host_that_is_reached_is_not_told():
    assert ask("echo hello")[1] == []


def test_this_host_tells_what_decides_a_job_and_no_secret(tmp_path):
    facts = host_facts([str(tmp_path)], {"NCCL_DEBUG": "INFO", "NCCL_API_KEY": "hidden", "HOME": "/root"})
    assert {"kernel", "libc", "python", "torch", "emberward code", "limit of open files"} <= set(facts)
    assert facts["variable NCCL_DEBUG"] == "INFO"
    assert "hidden" not in facts.values()
    assert facts["python"] == ".".join(map(str, sys.version_info[:3]))


def test_the_mount_of_a_folder_is_the_nearest_above_it():
    mounts = [("/", "disk"), ("/data", "old"), ("/data", "lustre"), ("/data/x", "tmpfs")]
    assert [mount_of(folder, mounts) for folder in ("/data/y", "/data/x/z", "/database", "/")] == [
        "lustre", "tmpfs", "disk", "disk",
    ]  # fmt: skip
    assert mount_of("/data", []) is None
