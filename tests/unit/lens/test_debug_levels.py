"""Collectives that torch compares between the ranks first: what is told of its debug level, and where."""

from dataclasses import replace

import pytest
from unit.lens.test_stalls import measure

from emberward.findings import Cause
from emberward.lens import Sources
from emberward.lens._debug_modes import checks_of_calls
from emberward.lens._operations import Operation, RankOperations

SWITCHES = [
    "dist.set_debug_level(dist.DebugLevel.DETAIL)",
    'os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"',
    'os.environ.setdefault("TORCH_DISTRIBUTED_DEBUG", "DETAIL")',
]
OTHERS = ["dist.set_debug_level(dist.DebugLevel.INFO)", 'level = "DETAIL"']


def rank_of(rank, asks_s, *, checks_calls=True):
    """Five steps of 10 ms, each with one collective that is asked for in so long."""
    asked = [Operation("c10d::allreduce_", 1, 0.01 * i, 0.01 * i + asks_s, -1, 0, False, (), ()) for i in range(5)]
    return RankOperations(
        rank=rank, device="cpu", device_name="cpu", threads=1, main=1, bounds_s=tuple(0.01 * i for i in range(6)),
        operations=tuple(asked), parameters=(), free_bytes=None, why_short=None, is_cut=False,
        checks_calls=checks_calls,
    )  # fmt: skip


def told(text, folder, ranks):
    script = folder / "train.py"
    script.write_text(f"import os\nimport torch.distributed as dist\n\n{text}\n")
    samples = measure(folder, lambda step: sum(range(1000)))
    return checks_of_calls(ranks, [replace(samples, loop=((str(script), "main", 1),))], Sources())


@pytest.mark.parametrize("text", SWITCHES)
def test_it_is_told_at_the_line_that_asks_for_it_with_what_the_last_rank_needs(text, tmp_path):
    (waste,) = told(text, tmp_path, [rank_of(0, 0.004), rank_of(1, 0.002)])
    assert (waste.cause, waste.site) == (Cause.DEBUG_MODE, f"{tmp_path}/train.py:4")
    assert waste.share == pytest.approx(0.2)
    assert waste.ranks == (0, 1)


@pytest.mark.parametrize("text", OTHERS)
def test_where_the_environment_asks_for_it_no_line_is_told(text, tmp_path):
    (waste,) = told(text, tmp_path, [rank_of(0, 0.004), rank_of(1, 0.002)])
    assert waste.site is None


def test_calls_that_are_not_compared_or_take_no_time_are_none(tmp_path):
    assert told(SWITCHES[0], tmp_path, [rank_of(0, 0.004, checks_calls=False)]) == ()
    assert told(SWITCHES[0], tmp_path, [rank_of(0, 0.004), rank_of(1, 0.0001)]) == ()
