"""Who stands against whom when copies differ, and what a person reads."""

import pytest

from emberward.findings import Cause
from emberward.health import (
    Copies,
    Held,
    find_difference,
    repair_source,
    repaired_finding,
    state_finding,
    tensor_finding,
)


def copies(digests, *, name="model/blocks.0.mlp_norm.weight", held=Held.PARAMETER, place=""):
    return Copies(held=held, name=name, place=place, digests=dict(enumerate(digests)))


@pytest.mark.parametrize(
    ("digests", "source", "odd"),
    [
        ([7, 7, 7, 9], 0, (3,)),
        ([9, 7, 7], 1, (0,)),
        ([1, 2, 7, 7, 7], 2, (0, 1)),
        ([7, 9], None, (0, 1)),
        ([7, 7, 9, 9], None, (0, 1, 2, 3)),
        ([1, 2, 3], None, (0, 1, 2)),
    ],
)
def test_the_minority_is_odd_and_without_a_majority_all_are(digests, source, odd):
    found = find_difference(copies(digests))
    assert (found.source, found.odd) == (source, odd)


@pytest.mark.parametrize("digests", [[7], [7, 7], [0, 0, 0]])
def test_equal_copies_do_not_differ(digests):
    assert find_difference(copies(digests)) is None


def test_repair_takes_the_majority_or_else_the_copy_that_is_saved():
    assert repair_source(find_difference(copies([9, 7, 7]))) == 1
    assert repair_source(find_difference(copies([9, 7]))) == 0


def test_one_tensor_whose_moments_agree_changed_by_itself():
    found = tensor_finding([find_difference(copies([7, 7, 9, 7]))], step=150, last_equal_step=100)
    assert (found.code, found.cause, found.culprit_ranks) == ("R115", Cause.BIT_FLIP, (2,))
    assert found.message == (
        "copies differ after step 150: model/blocks.0.mlp_norm.weight; rank 2 stands against the majority"
    )
    assert found.evidence == (
        "equal after step 100",
        "inferred: its moments agree: the value changed by itself, as memory or a stray write changes it",
        "model/blocks.0.mlp_norm.weight: rank 2 against 0, 1, 3",
    )
    assert found.phase.step == 149


def test_moments_that_differ_as_well_point_at_the_update():
    differences = [
        find_difference(copies([7, 9], name=name, held=held))
        for name, held in [
            ("model/blocks.0.mlp_norm.weight", Held.PARAMETER),
            ("optim/exp_avg/blocks.0.mlp_norm.weight", Held.MOMENT),
        ]
    ]
    found = tensor_finding(differences, step=50, last_equal_step=None)
    assert (found.cause, found.culprit_ranks) == (Cause.REPLICA_DRIFT, ())
    assert found.message == (
        "copies differ after step 50: model/blocks.0.mlp_norm.weight and 1 more; ranks 0, 1 disagree"
    )
    assert found.evidence[:2] == (
        "before it was never compared",
        "inferred: moments or several tensors differ: "
        "the gradient, the clipping or the update is not the same everywhere",
    )


def test_many_differences_are_counted():
    differences = [find_difference(copies([7, 9, 7], name=f"tensor {i}")) for i in range(20)]
    assert tensor_finding(differences, step=1, last_equal_step=None).evidence[-1] == "and 12 more"


def test_a_state_and_a_repair_are_told():
    state = find_difference(copies([1, 1, 1, 5], name="random numbers (cpu)", held=Held.STATE))
    found = state_finding([state], step=50, last_equal_step=0)
    assert found.message == (
        "ranks are in different states after step 50: random numbers (cpu); rank 3 stands against the majority"
    )
    assert (found.code, found.culprit_ranks) == ("R117", (3,))
    repaired = repaired_finding([find_difference(copies([7, 7, 9])), find_difference(copies([7, 9]))], step=50)
    assert repaired.code == "R116"
    assert repaired.message == "2 tensors were made equal again after step 50, on rank 1, 2"
    assert repaired.evidence[0] == "1 by the majority of their copies, 1 by the copy that saves hold"


def test_without_a_majority_all_ranks_in_different_states_are_named():
    state = find_difference(copies([1, 2], name="learning rate", held=Held.STATE))
    found = state_finding([state], step=50, last_equal_step=None)
    assert found.message == "ranks are in different states after step 50: learning rate; rank 0, 1 disagree"
    assert found.culprit_ranks == ()
