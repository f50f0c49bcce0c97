"""Stages of a pipeline: what is told of ranks that send to each other and whose own time is written down here."""

from dataclasses import replace

import pytest
from unit.lens.test_overlap import FILE, NUM, STEP_MS, samples
from unit.lens.test_work import NONE, rank_of, work_of

from emberward.events import Group, Lane, LaneKind
from emberward.findings import Cause
from emberward.lens import Call, Overlap, Replay
from emberward.lens._operations import Parameter
from emberward.lens._stages import uneven_stages

LINE = Lane(kind=LaneKind.HOST)


def sent(*, is_transfer=True):
    """In each step rank 1 sends at 90 ms, what rank 0 has waited for since 40 ms of the step."""

    def call(rank, step, began_ms):
        begin = (step * STEP_MS + began_ms) / 1000
        end = (step * STEP_MS + 91) / 1000
        return Call(
            rank=rank, lane=LINE, group=Group(ranks=(1, 0)), number=step + 1, op="send", num_bytes=9, issued_s=begin,
            ended_s=end, blocked_s=begin, free_s=end, file=FILE, line=3, wait_line=3, is_transfer=is_transfer,
        )  # fmt: skip

    return tuple((call(0, step, 40), call(1, step, 90)) for step in range(NUM))


def stages(own_ms, blocks, *, is_replica=False, is_transfer=True, first=30):
    """`own_ms`: of each rank; `blocks`: operations of rank 1's modules, by name; `first`: of rank 0's."""
    ranks = [rank_of(number, [("emberward::at train.py:5", NONE, 0.0, 9.0, -1, False)]) for number in (0, 1)]
    held = [(Parameter("lines.0.weight", 9, 9, 0.5 if is_replica else float(rank)),) for rank in (0, 1)]
    ranks = [replace(rank, parameters=own) for rank, own in zip(ranks, held, strict=True)]
    work = work_of(ranks)
    work = replace(
        work,
        ranks=tuple(
            replace(each, modules=own) for each, own in zip(work.ranks, ({"lines.0": first}, blocks), strict=True)
        ),
    )
    both = [samples(rank, lines={2 + rank: own_ms[rank]}) for rank in (0, 1)]
    overlap = Overlap(
        found=(), waits_s={}, exposed_s={}, calls_per_step=0.0, bytes_per_step=0.0, met=sent(is_transfer=is_transfer)
    )
    return uneven_stages(overlap, both, ranks, work), Replay(overlap.met, both)


THREE = {"lines.3.wide": 20, "lines.4.wide": 20, "lines.5.wide": 20, "say": 40}


def test_a_stage_with_blocks_that_another_has_time_for_is_told_with_the_best_cut():
    told, replay = stages((30, 80), THREE)
    # A block is 16 ms: 80 and 30 become 64 and 46 with one, 48 and 62 with two.
    assert (told.cause, told.site, told.ranks, told.waiting) == (Cause.IMBALANCE, f"{FILE}:3", (1,), (0,))
    assert told.part * told.cost_s == pytest.approx(0.018)
    assert replay.without(told) == pytest.approx(0.018, rel=0.01)
    assert "3 blocks of 16.0 ms 2 could move" in told.what


@pytest.mark.parametrize(
    ("own_ms", "blocks", "more"),
    [
        ((70, 80), THREE, {}),
        ((30, 80), {"lines.3.wide": 90, "say": 10}, {}),
        ((30, 80), THREE, {"is_replica": True}),
        ((30, 80), THREE, {"is_transfer": False}),
        ((30, 80), THREE, {"first": 85}),
    ],
    ids=["a block is more than the difference", "one block", "replicas", "ranks that send nothing", "a slow processor"],
)
def test_stages_that_no_block_makes_more_even_and_other_ranks_are_none(own_ms, blocks, more):
    assert stages(own_ms, blocks, **more)[0] is None
