"""Ranks that run under a certificate: the first call that is not the proved one is named before it is issued."""

import functools
import json
import re

import pytest

from ranks.certificate_cases import STEP_OF_PLANT, held, rehearsed

DATA = {"dp": 2, "zero": 2, "accumulation": 2}
PIPELINE = {"pp": 2, "accumulation": 2}

PLANTS = {
    "an extra call": ("extra", "extra_collective", r"all_reduce world float32 3 sum"),
    "a skipped call": ("skipped", "skipped_collective", r"the end of this step"),
    "another type": ("another type", "dtype", r"all_reduce world float32 6 sum"),
    "another size": ("another size", "shape", r"all_reduce world float64 5 sum"),
}


@pytest.fixture(scope="module")
def programs_of(pool):
    """For each rank the dry run of the rank that stands for its role: what the proof assumes. Each is run once."""

    @functools.cache
    def programs(**named):
        told = pool.run(rehearsed, 2, **named)
        return [told[0]] * 2 if named.get("pp", 1) == 1 else told

    return programs


@pytest.mark.parametrize(("plant", "cause", "found"), PLANTS.values(), ids=PLANTS.keys())
def test_a_planted_departure_is_named_before_the_call_is_issued(pool, tmp_path, programs_of, plant, cause, found):
    right, wrong = pool.run(held, 2, folder=str(tmp_path), programs=programs_of(**DATA), plant=plant, **DATA)
    assert right["departures"] == []
    ((departure, position),) = wrong["departures"]
    assert (departure.rank, departure.step, departure.cause.value) == (1, STEP_OF_PLANT, cause)
    assert re.fullmatch(found, departure.found_text)
    if plant != "extra":
        assert departure.expected_text.startswith("all_reduce world float64 6 sum at emberward/engine/_gradients.py:")
    assert position == departure.position, "the call was not issued, and is not counted"
    (line,) = (tmp_path / "findings.jsonl").read_text().splitlines()
    finding = json.loads(line)
    assert (finding["code"], finding["severity"], finding["culprit_ranks"]) == ("R110", "error", [1])
    assert finding["phase"]["step"] == STEP_OF_PLANT
    assert finding["site"] == departure.site
    if plant == "extra":
        assert re.search(r"certificate_cases\.py:\d+$", finding["site"]), "the line that made the call"


def test_a_departure_that_is_only_reported_is_issued_and_the_run_goes_on(pool, tmp_path):
    layout = {"accumulation": 2}
    known = pool.run(rehearsed, 1, **layout)
    (answer,) = pool.run(
        held, 1, folder=str(tmp_path), programs=known, plant="extra", culprit=0, policy="report", **layout
    )
    assert (answer["end"], answer["step"]) == ("done", 8)
    (line,) = (tmp_path / "findings.jsonl").read_text().splitlines()
    assert (json.loads(line)["code"], json.loads(line)["severity"]) == ("R110", "warning")


RIGHT = {
    "evaluations at odd steps, of sets longer than the rehearsal's": (DATA, {}),
    "a batch ramp-up over four accumulations": ({"dp": 2, "zero": 3}, {"is_ramped": True}),
    "a pipeline's batch ramp-up": ({"pp": 2}, {"is_ramped": True}),
    "a step that is not finite and skipped": (DATA, {"plant": "not finite"}),
    "a stop by a signal": (DATA, {"stops_at": 4}),
}


@pytest.mark.parametrize(("layout", "named"), RIGHT.values(), ids=RIGHT.keys())
def test_what_a_run_may_do_is_no_departure(pool, tmp_path, programs_of, layout, named):
    known = programs_of(**({"is_ramped": True} if "is_ramped" in named else {}), **layout)
    answers = pool.run(held, 2, folder=str(tmp_path), programs=known, **named, **layout)
    assert [answer["departures"] for answer in answers] == [[], []]
    assert [answer["not_certified"] for answer in answers] == [[], []]
    stops_at = named.get("stops_at")
    assert {answer["end"] for answer in answers} == {"done" if stops_at is None else "stopped"}
    assert {answer["step"] for answer in answers} == {8 if stops_at is None else stops_at + 1}
    assert {answer["skipped"] for answer in answers} == {int("plant" in named)}
    if layout.get("pp", 1) == 1:
        assert len({(answer["position"], answer["hash"]) for answer in answers}) == 1, "one role, one hash"
    file = tmp_path / "findings.jsonl"
    told = [json.loads(line)["code"] for line in file.read_text().splitlines()] if file.exists() else []
    assert not {"R110", "R111"} & set(told)
