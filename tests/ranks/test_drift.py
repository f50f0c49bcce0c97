"""Copies that must be equal: planted differences are found at the next check, by tensor and rank; else all is quiet."""

import pytest

from ranks.health_cases import NORM, drift_run, inspected_run

FOUR = {"dp": 2, "tp": 2, "zero": 0}
"""Norms lie on all four ranks; what tp splits on two."""


def the_finding(answers, step):
    """The one finding of a check, which all ranks must have alike."""
    assert all(answer["found"] == answers[0]["found"] for answer in answers)
    ((found_at, (finding,)),) = answers[0]["found"].items()
    assert found_at == step
    return finding


@pytest.mark.parametrize(
    "layout",
    [
        {"dp": 2, "tp": 2, "zero": 0, "accumulation": 2},
        {"dp": 2, "tp": 2, "zero": 1},
        {"dp": 4, "dp_replicate": 2, "zero": 3},
        {"dp": 1, "tp": 2, "pp": 2, "accumulation": 2, "sequence_parallel": False},
        {"dp": 2, "pp": 2, "zero": 0, "accumulation": 2, "compute": "bf16"},
    ],
    ids=["dp2 tp2 zero0", "dp2 tp2 zero1", "hsdp zero3", "tp2 pp2", "dp2 pp2 bf16"],
)
def test_clean_steps_find_nothing(pool, layout):
    answers = pool.run(drift_run, 4, steps=6, **layout)
    assert all(answer["found"] == {} for answer in answers)
    assert any(answer["names"] for answer in answers), "there are copies to compare"
    # One phase a check, which a dry run rehearses; the search comes with a difference alone.
    assert all(answer["phases"] == [(step, "check") for step in range(1, 7)] for answer in answers)


def test_a_flipped_bit_is_found_at_the_next_check_on_its_rank_and_tensor(pool):
    answers = pool.run(drift_run, 4, steps=6, fault="bit", at=4, every=2, **FOUR)
    finding = the_finding(answers, 4)
    assert (finding["code"], finding["cause"], finding["culprit_ranks"]) == ("R115", "bit_flip", [3])
    assert finding["message"] == f"copies differ after step 4: model/{NORM}; rank 3 stands against the majority"
    assert finding["evidence"][0] == "equal after step 2"
    # It is told once: the check after step 6 sees the same difference again and says nothing new.
    assert answers[0]["phases"] == [(2, "check"), (4, "check"), (4, "search"), (6, "check"), (6, "search")]


def test_bloom_s_clip_bug_is_found_at_the_first_check_with_its_moments(pool):
    """With two copies of each nobody can say which is right: both ranks are named and no culprit."""
    answers = pool.run(drift_run, 2, steps=3, fault="clip on tp 0 alone", every=3, tp=2)
    finding = the_finding(answers, 3)
    assert (finding["cause"], finding["culprit_ranks"]) == ("replica_drift", [])
    assert "model/blocks.0.attention_norm.weight" in " ".join(finding["evidence"])
    assert "ranks 0, 1 disagree" in finding["message"]
    # Every norm and every bias of a row-parallel layer, with two moments each.
    assert finding["message"].split(" and ")[1].split()[0] == str(3 * (2 * 4 * 2 + 2 * 2 + 2 * 4) - 1)


def test_one_rank_s_generator_is_found(pool):
    answers = pool.run(drift_run, 4, steps=4, fault="generator", at=3, **FOUR)
    finding = the_finding(answers, 3)
    assert (finding["code"], finding["culprit_ranks"]) == ("R117", [2])
    assert "random numbers (cpu); rank 2 stands against the majority" in finding["message"]


def test_one_rank_s_learning_rate_is_found(pool):
    answers = pool.run(drift_run, 4, steps=3, fault="rate", at=3, **FOUR)
    assert the_finding(answers, 3)["message"] == (
        "ranks are in different states after step 3: learning rate; rank 1 stands against the majority"
    )


@pytest.mark.parametrize(
    ("layout", "culprits"),
    [({"dp": 2, "pp": 2, "zero": 0, "accumulation": 2}, [3]), ({"tp": 2, "pp": 2, "accumulation": 2}, [])],
    ids=["four ends", "two ends"],
)
def test_a_tied_embedding_that_differs_at_its_two_ends_is_found(pool, layout, culprits):
    answers = pool.run(drift_run, 4, steps=2, fault="tied", at=2, **layout)
    finding = the_finding(answers, 2)
    assert finding["culprit_ranks"] == culprits
    assert "model/embed.weight" in finding["message"]
    if not culprits:
        # tp rank 1 holds the second half of the vocabulary, on stage 0 (rank 1) and on stage 1 (rank 3).
        assert finding["message"].endswith("model/embed.weight[32:64, 0:32]; ranks 1, 3 disagree")


@pytest.mark.parametrize(("fault", "odd"), [("bit", 3), ("moment", 0), ("generator", 2)])
def test_repair_makes_copies_bitwise_equal_and_the_run_goes_on(pool, fault, odd):
    answers = pool.run(drift_run, 4, steps=5, fault=fault, at=2, policy="repair", **FOUR)
    finding = the_finding(answers, 2)
    assert (finding["code"], finding["severity"], finding["culprit_ranks"]) == ("R116", "warning", [odd])
    for number, name in enumerate(answers[0]["names"]):
        if "norm" in name:
            assert len({answer["digests"][number] for answer in answers}) == 1, name
    assert len({answer["random"] for answer in answers}) == 1


def test_repair_of_two_copies_takes_the_one_that_saves_hold(pool):
    straight = pool.run(drift_run, 4, steps=4, tp=2, pp=2, accumulation=2)
    mended = pool.run(drift_run, 4, steps=4, fault="tied", at=2, policy="repair", tp=2, pp=2, accumulation=2)
    assert the_finding(mended, 2)["culprit_ranks"] == [3]
    assert [answer["digests"] for answer in mended] == [answer["digests"] for answer in straight]


@pytest.mark.parametrize(("policy", "fault", "code"), [("stop", "bit", "R115"), ("repair", "rate", "R117")])
def test_a_stop_ends_all_ranks_alike(pool, policy, fault, code):
    answers = pool.run(drift_run, 4, steps=5, fault=fault, at=3, policy=policy, **FOUR)
    assert {answer["error"]["code"] for answer in answers} == {code}
    assert len({answer["error"]["message"] for answer in answers}) == 1


# -- steps that are not finite ---------------------------------------------------------------------------------------


def the_inspection(answers):
    assert all(answer["finding"] == answers[0]["finding"] and answer["unchanged"] for answer in answers)
    return answers[0]["finding"]


def test_the_operation_and_rank_that_made_the_first_infinity_are_named(pool):
    """Rank 1's part of a row-parallel product overflows; the sum over tp brings it to both ranks."""
    answers = pool.run(inspected_run, 2, fault="forward", on=1, tp=2, accumulation=2)
    assert not answers[0]["is_finite"]
    finding = the_inspection(answers)
    assert (finding["code"], finding["culprit_ranks"]) == ("R105", [1])
    assert finding["message"] == (
        "the first value of step 2 that is not finite came from mm of blocks.3.mlp.down "
        "in the forward of micro-batch 0, on rank 1"
    )
    assert finding["phase"] == {"step": 1, "micro_batch": 0, "stage": "F"}


def test_a_parameter_that_was_not_finite_before_is_named_with_its_rank(pool):
    finding = the_inspection(pool.run(inspected_run, 4, fault="parameter", on=1, dp=2, pp=2, accumulation=2, zero=0))
    assert finding["message"] == f"parameter {NORM} was not finite before step 2, on rank 1"
    assert finding["culprit_ranks"] == [1]


def test_a_step_that_is_finite_when_run_again_points_at_the_hardware(pool):
    finding = the_inspection(pool.run(inspected_run, 2, fault="none", on=0, dp=2))
    assert (finding["kind"], finding["culprit_ranks"]) == ("device", [])
    assert finding["message"] == (
        "step 2, run again, was finite: what was not finite the first time did not come again"
    )


def test_what_all_ranks_make_alike_names_all_of_them(pool):
    finding = the_inspection(pool.run(inspected_run, 2, fault="loss", on=None, dp=2, zero=1))
    assert finding["culprit_ranks"] == [0, 1]
    assert "on ranks 0, 1" in finding["message"]
