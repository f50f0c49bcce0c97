"""Since when steps are slower, and in which part of them: seed 1's own numbers, and budgets written down here."""

import json
from pathlib import Path

from unit.lens.test_profile import lines, sources

from emberward.lens import (
    Sources,
    budget_of,
    changes_of,
    compare_parts,
    compared_finding,
    parts_around,
    parts_by_step,
    samples_of,
    slowdown_finding,
)

FACTS = json.loads((Path(__file__).parents[2] / "data" / "health" / "bloom_176b_slowdown.json").read_text())
QUIET = {step: seconds for step, seconds in FACTS["quiet"]}
CHANGE = {step: seconds for step, seconds in FACTS["change"]}


def test_bloom_s_change_is_a_warning_in_these_words():
    (change,) = changes_of({**QUIET, **CHANGE})
    assert change.step == 42784
    finding = slowdown_finding(change)
    assert (finding.code, finding.message) == (
        "P104",
        "steps take 110.66 s since step 42783 and took 106.28 s before: +4.1%",
    )


def test_bloom_s_quiet_iterations_are_no_slowdown():
    assert changes_of(QUIET) == ()
    assert changes_of({step: seconds for step, seconds in enumerate([*QUIET.values()] * 9)}) == ()


def test_the_part_in_which_a_change_lies_is_named_and_one_that_is_spread_is_not():
    lengths = {step: 1.0 if step < 30 else 1.1 for step in range(40)}
    (change,) = changes_of(lengths)
    data = {step: 0.1 if step < 30 else 0.2 for step in range(40)}
    rest = {step: 0.9 for step in range(40)}
    told = slowdown_finding(change, parts_around(change, {"rest": rest, "data": data}))
    assert told.message == "steps take 1100.00 ms since step 30 and took 1000.00 ms before: +10.0%; it lies in data"
    half = {step: each / 2 for step, each in data.items()}
    spread = slowdown_finding(change, parts_around(change, {"one": half, "two": half, "rest": rest}))
    assert "it lies in" not in spread.message


def budget(**options):
    return budget_of(parts_by_step([samples_of(lines(**options))], sources()))


def test_two_runs_are_compared_part_by_part():
    parts = compare_parts(budget(item_ns=20_000_000), budget(item_ns=35_000_000))
    assert [(part.name, round(1000 * part.change_s, 3)) for part in parts] == [
        ("item at train.py:4", 15.0),
        ("line train.py:4", 15.0),
        ("line train.py:3", -15.0),
    ]
    finding = compared_finding(0.100, 0.115, parts)
    assert finding is not None
    assert finding.message == (
        "a step of the second run takes 115.00 ms and one of the first 100.00 ms: +15.0%; it lies in item at train.py:4"
    )


def test_a_run_that_is_as_fast_is_no_finding():
    assert compared_finding(0.100, 0.102, ()) is None
    assert compared_finding(0.100, 0.050, ()) is None


def test_parts_of_no_samples_are_none():
    assert parts_by_step([], Sources()) == {}
