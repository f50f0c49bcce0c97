"""Ranks that have more to compute in turn, beside ranks that come late in turn for other reasons."""

from dataclasses import replace

import pytest

from emberward.events import Group, Lane, LaneKind
from emberward.findings import Cause
from emberward.lens import Call, Replay, Sources, audit, operations_of, samples_of
from emberward.lens._findings import exposed_finding
from emberward.lens._uneven import is_of_pace, uneven_steps

MS = 1_000_000
STEP_MS = 100
NUM = 10
FILE = "train.py"
TEXT = "for ids in batches:\n    loss = model(ids)\n    loss.backward()\n"


def lengths(rank, step, longer_ms):
    """What a rank computes in a step: 40 ms, and in every second step so much more."""
    return 40 + (longer_ms if (step + rank) % 2 else 0)


def samples(rank, *, own_ms, in_module=False):
    """A rank that computes `own_ms` of a step at line 2, maybe in a module, and waits in the backward of line 3."""
    places = [
        [FILE, "<module>", 1, "user", 2, 2, 0, 1, "CALL"],
        [FILE, "<module>", 1, "user", 3, 3, 0, 1, "CALL"],
        ["/torch/autograd/graph.py", "_engine_run_backward", 1, "platform", 9, 9, 0, 1, "CALL"],
        ["/torch/nn/modules/conv.py", "forward", 1, "platform", 9, 9, 0, 1, "CALL"],
    ]
    spent = [own_ms(rank, step) for step in range(NUM)]
    stacks = [
        {
            "stack": [3, 0] if in_module else [0],
            "flag": "",
            "steps": {k: [ms * MS, ms * MS] for k, ms in enumerate(spent)},
        },
        {"stack": [2, 1], "flag": "", "steps": {k: [(STEP_MS - ms) * MS, 0] for k, ms in enumerate(spent)}},
    ]
    head = {
        "form": 1, "pid": rank, "warmup": 0, "is_last": True, "period_ns": 2 * MS, "first_step": 0,
        "bounds_ns": [k * STEP_MS * MS for k in range(NUM + 1)], "queue_ns": 0, "has_cpu_time": True,
        "loop": [[FILE, "<module>", 1]], "outputs": [], "rank": rank, "world_size": 2, "device": "cpu",
    }  # fmt: skip
    return samples_of([head, *({"place": each} for each in places), *stacks, {"end": True}])


def operations(rank, *, sizes):
    """Five observed steps with a product each, of `sizes` rows in turn."""
    rows = [sizes[(step + rank) % len(sizes)] for step in range(5)]
    words = ["aten::mm", *(f'[[[{count}, 64], [64, 64]], ["float", "float"]]' for count in rows)]
    ops = [[0, 1 + step, 1, step * STEP_MS * MS + MS, MS, -1, 2 * 64 * 64 * rows[step], 0] for step in range(5)]
    head = {
        "form": 1, "rank": rank, "device": "cpu", "device_name": "cpu", "threads": 1, "offset_ns": 0,
        "bounds_ns": [k * STEP_MS * MS for k in range(6)], "free_bytes": None, "why_short": None, "is_cut": False,
    }  # fmt: skip
    return operations_of([head, *({"word": each} for each in words), *({"op": each} for each in ops), {"end": True}])


def meetings(came_ms):
    """One meeting a step, to which each rank comes when it has computed."""
    group, host = Group(ranks=(0, 1), index=0), Lane(kind=LaneKind.HOST)

    def call(rank, step):
        issued_s, ended_s = (STEP_MS * step + came_ms(rank, step)) / 1000, (STEP_MS * (step + 1) - 1) / 1000
        return Call(
            rank=rank, lane=host, group=group, number=step, op="backward", num_bytes=0, issued_s=issued_s,
            ended_s=ended_s, blocked_s=issued_s, free_s=ended_s, file="", line=0, wait_line=0,
        )  # fmt: skip

    return [(call(0, step), call(1, step)) for step in range(NUM)]


def told(*, came_ms, own_ms, sizes):
    both = [samples(rank, own_ms=own_ms) for rank in (0, 1)]
    overlap = audit([], both, Sources(lambda file: TEXT), meetings(came_ms))
    found = uneven_steps(overlap, both, [operations(rank, sizes=sizes) for rank in (0, 1)])
    return None if found is None else (found.cause, found.site, round(1000 * found.cost_s), found.ranks)


def longer(rank, step):
    return lengths(rank, step, 30)


def alike(rank, step):
    return lengths(rank, step, 0)


def test_ranks_that_compute_more_in_turn_are_told_at_the_line_that_takes_longer():
    assert told(came_ms=longer, own_ms=longer, sizes=(100, 200)) == (Cause.IMBALANCE, "train.py:2", 30, ())


def test_what_a_late_rank_did_not_compute_is_no_part_of_the_cost():
    assert told(came_ms=longer, own_ms=lambda rank, step: lengths(rank, step, 20), sizes=(100, 200)) == (
        Cause.IMBALANCE, "train.py:2", 20, (),
    )  # fmt: skip


@pytest.mark.parametrize(
    "case",
    [
        {"came_ms": longer, "own_ms": longer, "sizes": (100, 100)},
        {"came_ms": longer, "own_ms": longer, "sizes": (100, 105)},
        {"came_ms": longer, "own_ms": alike, "sizes": (100, 200)},
        {"came_ms": alike, "own_ms": alike, "sizes": (100, 200)},
        {"came_ms": lambda rank, step: 40 + 30 * rank, "own_ms": longer, "sizes": (100, 200)},
    ],
    ids=["equal batches", "batches that explain little", "late for want of a processor", "never late", "always one"],
)
def test_ranks_that_are_late_in_turn_for_other_reasons_are_no_imbalance(case):
    assert told(**case) is None


@pytest.mark.parametrize(
    ("in_module", "rows", "is_of_its_processor"),
    [(True, (100, 100), True), (True, (100, 180), False), (False, (100, 100), False)],
    ids=["the same operations", "more to compute", "work of its own"],
)
def test_a_rank_that_takes_longer_for_the_same_operations_is_no_late_peer(in_module, rows, is_of_its_processor):
    both = [samples(rank, own_ms=lambda rank, step: 40 + 10 * rank, in_module=in_module) for rank in (0, 1)]
    overlap = audit([], both, Sources(lambda file: TEXT), meetings(lambda rank, step: 40 + 10 * rank))
    seen = [operations(rank, sizes=(rows[rank],)) for rank in (0, 1)]
    (late,) = overlap.found
    assert (late.cause, late.site, late.ranks) == (Cause.LATE_PEER, "train.py:2", (1,))
    assert is_of_pace(late, both, seen) is is_of_its_processor
    assert not is_of_pace(late, both, seen[:1])  # What a rank computes is not known.


def test_uneven_steps_gain_what_the_last_comes_after_the_mean_in_these_words():
    both = [samples(rank, own_ms=longer) for rank in (0, 1)]
    overlap = audit([], both, Sources(lambda file: TEXT), meetings(longer))
    found = uneven_steps(overlap, both, [operations(rank, sizes=(100, 200)) for rank in (0, 1)])
    gain_s = Replay(overlap.met, both).without(found)
    assert 1000 * gain_s == pytest.approx(15)
    finding = exposed_finding(replace(found, cost_s=gain_s, gain_s=gain_s, share=0.15), num_ranks=2)
    assert (finding.code, finding.culprit_ranks, finding.waiting_ranks) == ("P102", (), (0, 1))
    assert finding.message == (
        "imbalance: now one rank, now another has more to compute than the others, which wait for it: "
        "15.00 ms a step, 15.0%"
    )
