"""The ledger of hosts: what is a strike, who is out, who comes back by a soak, and who must take part all the same."""

import dataclasses
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from emberward.findings import Cause, Certainty, Finding, Kind, Severity, host_down
from emberward.runs import admit, left_out, read_ledger, read_record, spared, strike, strike_of

BAD = Finding(
    code="E101",
    severity=Severity.ERROR,
    kind=Kind.DEVICE,
    cause=Cause.SEGFAULT,
    certainty=Certainty.OBSERVED,
    message="device n3:7 fails when it works with others (probe soak)",
    hosts=("n3",),
    devices=("n3:7",),
)
DOWN = host_down("n3", "does not answer", next="repair it")


def changed(**fields) -> Finding:
    return dataclasses.replace(BAD, **fields)


@pytest.mark.parametrize(
    ("finding", "is_strike"),
    [
        (BAD, True),
        (DOWN, True),
        (changed(certainty=Certainty.INFERRED, cause=Cause.BIT_FLIP), True),
        (changed(code="E103", cause=Cause.SLOW_RANK), True),
        (changed(cause=Cause.UNKNOWN), False),
        (changed(cause=Cause.KILLED), False),
        (changed(cause=Cause.DISK_FULL), False),
        (changed(cause=Cause.VERSION_SKEW), False),
        (changed(hosts=("n3", "n4")), False),
        (changed(severity=Severity.WARNING), False),
        (changed(code="L102", kind=Kind.CRASH), False),
        (changed(code="H144", kind=Kind.STRAGGLER, cause=Cause.SLOW_RANK), False),
        (dataclasses.replace(DOWN, certainty=Certainty.INFERRED), False),
    ],
    ids=[
        "bad device", "host down", "now and then", "slow host", "unknown", "killed", "disk full", "other versions",
        "either of two", "warning", "a death", "waited for in a run", "a guess",
    ],
)  # fmt: skip
def test_only_a_hardware_cause_is_a_strike(tmp_path, finding, is_strike):
    assert (strike_of(finding) == "n3") is is_strike
    assert (strike(tmp_path, finding, by="a test") is not None) is is_strike
    assert list(left_out(tmp_path)) == (["n3"] if is_strike else [])


def test_a_soak_brings_a_host_back_once_and_then_only_a_person(tmp_path):
    strike(tmp_path, BAD, by="doctor")
    assert left_out(tmp_path)["n3"].why == f"E101 {BAD.message}"
    assert admit(tmp_path, "n3", by="doctor", why="228 tries passed", is_soaked=True).out is None
    strike(tmp_path, DOWN, by="attempt 3")
    record = admit(tmp_path, "n3", by="doctor", why="228 tries passed", is_soaked=True)
    assert (record.out is not None, record.needs_a_person, len(record.strikes)) == (True, True, 2)
    record = admit(tmp_path, "n3", by="Ann", why="its card was changed")
    assert (record.out, record.strikes) == (None, ())
    assert [entry.what.value for entry in record.entries] == [
        "strike", "soak passed", "strike", "soak passed", "admitted",
    ]  # fmt: skip


def test_strikes_that_are_long_ago_do_not_count(tmp_path):
    path = strike(tmp_path, BAD, by="doctor")
    said = json.loads(path.read_text())
    said["at"] = (datetime.now(UTC) - timedelta(days=31)).isoformat()
    path.write_text(json.dumps(said))
    admit(tmp_path, "n3", by="doctor", why="passed", is_soaked=True)
    strike(tmp_path, DOWN, by="attempt 3")
    assert admit(tmp_path, "n3", by="doctor", why="passed", is_soaked=True).out is None


def test_many_that_tell_of_one_fault_at_once_make_one_strike(tmp_path):
    with ThreadPoolExecutor(16) as pool:
        paths = set(pool.map(lambda number: strike(tmp_path, DOWN, by=f"host {number}"), range(16)))
    assert len(paths) == 1
    assert len(read_record(tmp_path, "n3").strikes) == 1


def test_files_that_cannot_be_read_are_passed_over(tmp_path):
    folder = strike(tmp_path, BAD, by="doctor").parent
    (folder / "0002.json").write_text('{"what": "str')
    (folder / "0003.json").write_text('{"what": "forgiven", "at": "yesterday"}')
    (folder / "notes.json").write_text("[]")
    assert len(read_record(tmp_path, "n3").entries) == 1
    assert admit(tmp_path, "n3", by="me", why="repaired").entries[-1].path.name == "0004.json"
    assert read_ledger(tmp_path / "nowhere") == {}


def test_no_more_are_left_out_than_can_be_spared(tmp_path):
    hosts = [f"n{number}" for number in range(6)]
    slow = changed(code="E103", cause=Cause.SLOW_RANK, devices=())
    for host, finding in (("n1", BAD), ("n2", slow), ("n4", DOWN)):
        strike(tmp_path, dataclasses.replace(finding, hosts=(host,)), by="a test")
    records = read_ledger(tmp_path)
    assert list(left_out(tmp_path)) == ["n1", "n2", "n4"]
    assert spared(records, hosts, num_needed=3) == frozenset()
    assert spared(records, hosts, num_needed=4) == {"n2"}, "what only is slow comes back first"
    assert spared(records, hosts, num_needed=5) == {"n2", "n1"}
    assert spared(records, hosts, num_needed=6) == {"n2", "n1", "n4"}
