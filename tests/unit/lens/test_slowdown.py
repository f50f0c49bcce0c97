"""Since when steps are slower, and in which part of them: seed 1's own numbers, and budgets written down here."""

import json
from pathlib import Path

from unit.lens.test_profile import WORK, lines, sources

from emberward.findings import Cause
from emberward.lens import (
    Sources,
    budget_of,
    changes_of,
    compare_parts,
    compared_finding,
    parts_around,
    parts_by_step,
    profile_of,
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


def rank_lines(rank, *, slow_at=None, waits_at=None):
    """100 steps of a tenth of a second: 60 ms of the rank's own, then a wait in torch's all-reduce.

    From `slow_at` on the rank works for 10 ms more, from `waits_at` on it waits for as much more.
    """
    own_ms = [70 if slow_at is not None and step >= slow_at else 60 for step in range(100)]
    wait_ms = [50 if waits_at is not None and step >= waits_at else 40 for step in range(100)]
    head, *_ = lines(rank=rank, size=4)
    bounds = [0]
    for own, wait in zip(own_ms, wait_ms, strict=True):
        bounds.append(bounds[-1] + (own + wait) * 1_000_000)
    call = ["/x/torch/distributed/distributed_c10d.py", "all_reduce", 1, "platform", 9, 9, 0, 1, "CALL"]
    return [
        {**head, "bounds_ns": bounds},
        {"place": WORK},
        {"place": call},
        {"stack": [0], "flag": "", "steps": {5 + k: [own * 1_000_000] * 2 for k, own in enumerate(own_ms)}},
        {"stack": [1, 0], "flag": "", "steps": {5 + k: [wait * 1_000_000, 0] for k, wait in enumerate(wait_ms)}},
        {"end": True},
    ]


def p104(ranks, **options):
    found = profile_of([samples_of(each) for each in ranks], sources(), asked_warmup=5, **options).findings
    return [each for each in found if each.code == "P104"]


def test_a_profile_names_the_rank_that_became_slower_and_what_happened_beside_it():
    ranks = [rank_lines(r, slow_at=60 if r == 2 else None, waits_at=None if r == 2 else 60) for r in range(4)]
    (found,) = p104(
        ranks, hosts={r: f"node{r // 2}" for r in range(4)}, beside=lambda step: (f"a save in step {step}",)
    )
    assert found.message == (
        "steps take 110.00 ms since step 65 and took 100.00 ms before: +10.0%; "
        "rank 2 is waited for, 10.00 ms more of its own work; it lies in line train.py:3"
    )
    assert (found.culprit_ranks, found.waiting_ranks, found.hosts) == ((2,), (0, 1, 3), ("node1",))
    assert found.evidence[:2] == (
        "own work of rank 2: 60.00 ms, now 70.00 ms",
        "line train.py:3: 100.00 ms, now 110.00 ms",
    )
    assert found.evidence[-1] == "beside it: a save in step 65"
    (host,) = p104(
        [rank_lines(r, slow_at=60 if r > 1 else None, waits_at=None if r > 1 else 60) for r in range(4)],
        hosts={r: f"node{r // 2}" for r in range(4)},
    )
    assert "; ranks 2, 3, all of host node1, are waited for, 10.00 ms more of their own work" in host.message


def test_a_profile_names_nobody_where_all_ranks_became_slower_or_wait_longer():
    (alike,) = p104([rank_lines(rank, slow_at=60) for rank in range(4)])
    (waiting,) = p104([rank_lines(rank, waits_at=60) for rank in range(4)])
    assert (alike.culprit_ranks, alike.cause) == (waiting.culprit_ranks, waiting.cause) == ((), Cause.UNKNOWN)
    assert alike.evidence[0].startswith("the own work of all ranks grew alike")
    assert waiting.evidence[0].startswith("the own work of none of the 4 ranks grew by most of that")


def test_two_runs_name_the_rank_that_takes_longer_in_the_second():
    before = {rank: 0.060 for rank in range(4)}
    found = compared_finding(0.100, 0.110, (), own_s=(before, {**before, 1: 0.070}), beside=("host node1 -> node7",))
    assert found is not None
    assert (found.culprit_ranks, found.evidence[-1]) == ((1,), "beside it: host node1 -> node7")
    assert found.message.endswith("; rank 1 is waited for, 10.00 ms more of its own work")
    for other in ({rank: 0.070 for rank in range(4)}, before, {**before, 4: 0.070}):
        nobody = compared_finding(0.100, 0.110, (), own_s=(before, other))
        assert nobody is not None
        assert (nobody.culprit_ranks, "waited for" in nobody.message) == ((), False)
