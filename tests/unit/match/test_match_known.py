"""Known disasters are found, their twins pass, and both are true when executed."""

import pytest

from emberward.findings import Severity
from emberward.match import EditKind, check, explain
from emberward.testing import ThreadReplayer, known_disasters, launch_queue, oneflow_swin

KNOWN = {known.name: known for known in known_disasters()}


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_the_disaster_is_found_and_its_twin_passes(name: str):
    known = KNOWN[name]
    verdict = check(known.broken())
    errors = [finding for finding in verdict.findings if finding.severity is Severity.ERROR]
    assert [(finding.code, finding.cause, finding.culprit_ranks) for finding in errors] == [
        (known.code, known.cause, known.culprit_ranks)
    ], explain(verdict)
    twin = check(known.fixed())
    assert twin.is_safe and not [f for f in twin.findings if f.severity is Severity.ERROR], explain(twin)


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_executed_for_real_the_disaster_hangs_and_its_twin_ends(name: str):
    known = KNOWN[name]
    replay = ThreadReplayer().replay(known.broken(), time_limit_s=30)
    assert replay.finished == check(known.broken()).finishes
    assert replay.finished == (known.code == "M106")  # an edge without tensor is refused although it would run
    assert ThreadReplayer().replay(known.fixed(), time_limit_s=30).finished


def test_seed_0_four_lanes_of_two_ranks_with_both_nccl_ops():
    verdict = check(oneflow_swin(is_buffer_on_forward=True))
    assert [(line.rank, str(line.lane)) for line in verdict.witness] == [
        (0, "forward"),
        (1, "forward"),
        (1, "backward"),
        (0, "backward"),
    ]
    text = explain(verdict)
    assert "nccl-1998" in text and "nccl-2108" in text
    assert "rank 1: forward 3 waits for backward 1" in text
    assert verdict.cure is not None and verdict.cure.kind is EditKind.OWN_LANE


@pytest.mark.parametrize("num_micro_batches", [3, 4, 8, 32])
def test_seed_0_own_lane_is_proved_for_more_micro_batches(num_micro_batches: int):
    assert check(oneflow_swin(is_buffer_on_forward=False, num_micro_batches=num_micro_batches)).is_safe
    assert not check(oneflow_swin(is_buffer_on_forward=True, num_micro_batches=num_micro_batches)).finishes


def test_seed_0_runs_with_two_micro_batches_as_reported():
    """The reporter's accumulation of 2 ran and of 4 hung."""
    assert check(oneflow_swin(is_buffer_on_forward=True, num_micro_batches=2)).is_safe


@pytest.mark.parametrize(("num_kernels", "is_safe"), [(1023, True), (1024, True), (1025, False), (1026, False)])
def test_the_launch_queue_turns_synchronous_at_its_limit(num_kernels: int, is_safe: bool):
    assert check(launch_queue(num_kernels=num_kernels)).is_safe is is_safe
