"""Results of campaigns: nothing dropped, nothing mixed, and none shown as current whose code has changed."""

import argparse
import json
import subprocess

import measured
import pytest
import unseen

from house.tree import ROOT


@pytest.fixture
def code(tmp_path):
    """A tree whose one file is measured."""
    file = tmp_path / "src" / "judge.py"
    file.parent.mkdir()
    file.write_text("LIMIT = 1\n")
    return file


def opened(tmp_path, **more):
    return measured.Results("hangs", what="hangs", measures=["src"], root=tmp_path, **more)


def test_the_page_says_of_each_result_whether_it_is_current():
    page = (ROOT / "docs" / "measured" / "README.md").read_text(encoding="utf-8")
    assert page == measured.table(), "run: python tools/measured.py"


def test_what_a_certainty_was_worth_is_what_the_first_contacts_say():
    page = (ROOT / "docs" / "explain.md").read_text(encoding="utf-8")
    assert page == measured.explained(), "run: python tools/measured.py"


PROGRAMS = sorted([*(ROOT / "tools").glob("campaign_*.py"), *(ROOT / "benchmarks").glob("*.py")])
PARTS = {"steps.py", "deepspeed_program.py", "profile_program.py", "engine_peers.py", "capped_links.py"}
"""Not benchmarks themselves."""


@pytest.mark.parametrize("program", [path for path in PROGRAMS if path.name not in PARTS], ids=lambda path: path.stem)
def test_a_campaign_or_benchmark_keeps_its_results_in_this_form_alone(program):
    text = program.read_text(encoding="utf-8")
    assert "Results(" in text or "publish(" in text or "= contact(" in text
    assert "add_options(parser)" in text or "add_set_options(parser)" in text
    assert "rev-parse" not in text, "provenance is measured.py's"


def test_a_first_contact_is_written_once():
    files = sorted(measured.FIRST_CONTACT.glob("*.json"))
    for path in files:
        log = ["git", "log", "--format=%H", "--", str(path.relative_to(ROOT))]
        commits = subprocess.run(log, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout.split()
        assert len(commits) <= 1, f"{path.name} was changed after its first commit"


def test_an_attempt_that_failed_stays_beside_the_one_that_passed(code, tmp_path):
    results = opened(tmp_path)
    results.add("kill-0", {"right": False})
    results.add("kill-0", {"right": True})
    results.summarise({"right": 1})
    again = opened(tmp_path)
    assert [each["right"] for each in again.attempts] == [False, True]
    assert again.latest()["kill-0"]["right"] is True
    value = json.loads((tmp_path / "docs" / "measured" / "hangs.json").read_text())
    assert value["summary"] == {"num_attempts": 2, "num_cases": 1, "again": {"kill-0": 2}, "right": 1}


def test_a_round_goes_on_only_on_the_code_and_with_the_settings_it_began_with(code, tmp_path):
    first = opened(tmp_path, settings={"seed": 1})
    first.add("a", {})
    first.summarise({"right": 1})
    assert opened(tmp_path, settings={"seed": 1}).has("a")
    code.write_text("LIMIT = 2\n")
    second = opened(tmp_path, settings={"seed": 1})
    assert not second.has("a")
    second.add("a", {})
    value = json.loads((tmp_path / "docs" / "measured" / "hangs.json").read_text())
    assert [each["summary"]["right"] for each in value["earlier"]] == [1]
    assert not opened(tmp_path, settings={"seed": 2}).has("a")
    assert not opened(tmp_path, settings={"seed": 1}, is_fresh=True).has("a")


def test_a_result_is_stale_once_its_code_changed_and_current_before(code, tmp_path):
    opened(tmp_path).add("a", {})
    value = measured.read(tmp_path / "docs" / "measured" / "hangs.json")
    assert measured.state_of(value, tmp_path) == "current"
    code.write_text("LIMIT = 2\n")
    assert measured.state_of(value, tmp_path).startswith("stale")
    assert measured.state_of(None, tmp_path).startswith("stale")


def test_code_that_is_gone_is_no_current_result(code, tmp_path):
    with pytest.raises(measured.ResultsError, match="nowhere"):
        measured.code_digest(["nowhere"], tmp_path)


def test_a_second_first_contact_is_refused(code, tmp_path):
    said = {"what": "programs", "measures": ["src"], "root": tmp_path, "rows": [{"name": "a", "right": False}]}
    path = measured.keep_first_contact("set", **said)
    with pytest.raises(measured.ResultsError, match="kept for ever"):
        measured.keep_first_contact("set", **said)
    assert json.loads(path.read_text())["rows"] == said["rows"]


@pytest.fixture
def meet(tmp_path, monkeypatch):
    """Runs a campaign over a set of three cases with these arguments; (its summary, the cases that ran)."""
    for name, value in (("ROOT", tmp_path), ("MEASURED", tmp_path / "docs" / "measured")):
        monkeypatch.setattr(measured, name, value)
    monkeypatch.setattr(unseen, "FIRST_CONTACT", tmp_path / "docs" / "measured" / "first_contact")
    keep, results = measured.keep_first_contact, measured.Results
    monkeypatch.setattr(unseen, "keep_first_contact", lambda *args, **more: keep(*args, **more, root=tmp_path))
    monkeypatch.setattr(unseen, "Results", lambda *args, **more: results(*args, **more, root=tmp_path))

    def run(*arguments):
        parser = argparse.ArgumentParser()
        unseen.add_set_options(parser)
        options = parser.parse_args([*arguments, "--into", str(tmp_path)])
        options.set, ran = "jobs", []
        found = unseen.contact(
            options,
            ("a", "b", "c"),
            lambda case: (ran.append(case), {"right": case != "b"})[1],
            lambda rows: {"right": sum(row["right"] for row in rows)},
            what="jobs",
            measures=["src"],
            tell=lambda row: "",
        )
        return found, sorted(ran)

    return run


def test_each_case_of_a_set_is_met_once_and_run_again_only_after(code, meet, tmp_path):
    assert meet() == (None, [])
    assert meet("a", "--first-contact")[0]["not_run"] == ["b", "c"]
    assert meet()[1] == ["a"], "what has not been met is never run without being kept as a first contact"
    found, ran = meet("--first-contact")
    assert (found["right"], found["not_run"], ran) == (1, [], ["b", "c"])
    assert meet("--first-contact") == (None, [])
    assert [path.name for path in unseen.parts_of("jobs")] == ["jobs.json", "jobs_part_2.json"]


def test_what_begins_after_the_minutes_is_left_unmet(code, meet):
    found, ran = meet("--first-contact", "--minutes", "-1")
    assert (found["not_run"], ran, unseen.parts_of("jobs")) == (["a", "b", "c"], [], [])
