"""What the plan says of memory and traffic is what the engine does: exact, for layouts that differ in every axis."""

import collections

import pytest

from emberward.plan import TrafficKind, rank_memory, rank_traffic
from emberward.report import step_shape_of
from ranks.cases import small_recipe
from ranks.plan_cases import engine_bytes

LAYOUTS = {
    "one rank": {},
    "dp2 zero0 acc2": {"dp": 2, "zero": 0, "accumulation": 2},
    "dp4 zero2 acc2": {"dp": 4, "zero": 2, "accumulation": 2},
    "dp4 zero3 acc2": {"dp": 4, "zero": 3, "accumulation": 2},
    "dp4 zero3 acc2 with room for three layers": {"dp": 4, "zero": 3, "accumulation": 2, "gathered_gb": 0.00017},
    "dp4 zero3 acc2 with room for all": {"dp": 4, "zero": 3, "accumulation": 2, "gathered_gb": 2.0},
    "hsdp 2x2 zero3": {"dp": 4, "dp_replicate": 2, "zero": 3, "accumulation": 2},
    "dp4 zero2 acc2 on the cpu": {"dp": 4, "zero": 2, "accumulation": 2, "device": "cpu"},
    "tp4 without sequence parallel": {"tp": 4, "sequence_parallel": False, "accumulation": 2},
    "tp2 recompute": {"tp": 2, "recompute": True, "accumulation": 2},
    "tp2 recompute without sequence parallel": {"tp": 2, "recompute": True, "sequence_parallel": False},
    "dp2 tp2 pp2 1f1b": {"dp": 2, "tp": 2, "pp": 2, "accumulation": 4},
    "dp2 pp2 interleaved bf16": {
        "dp": 2, "pp": 2, "zero": 3, "accumulation": 4, "schedule": "interleaved", "stages_per_rank": 2,
        "compute": "bf16",
    },
    "dp2 pp2 zb_h1 zero2 bf16": {
        "dp": 2, "pp": 2, "zero": 2, "accumulation": 4, "schedule": "zb_h1", "compute": "bf16",
    },
    "dp2 pp2 zb_v zero3": {
        "dp": 2, "pp": 2, "zero": 3, "accumulation": 4, "schedule": "zb_v", "stages_per_rank": 2,
    },
}  # fmt: skip
OPS = {"_allgather_base_": TrafficKind.GATHER, "_reduce_scatter_base_": TrafficKind.GATHER,
       "alltoall_base_": TrafficKind.GATHER, "allreduce_": TrafficKind.ALL_REDUCE}  # fmt: skip


def num_ranks(layout) -> int:
    return layout.get("dp", 1) * layout.get("tp", 1) * layout.get("pp", 1)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_the_plan_counts_what_the_engine_holds_and_sends(pool, layout):
    shape = step_shape_of(small_recipe(**layout))
    for rank, found in enumerate(pool.run(engine_bytes, num_ranks(layout), **layout)):
        memory = rank_memory(shape, rank)
        planned = {name: getattr(memory, name) for name in ("weight_bytes", "gradient_bytes", "optimizer_bytes")}
        assert planned == {name: found[name] for name in planned}, rank
        _check_traffic(shape, rank, found)


def _check_traffic(shape, rank, found):
    """Groups of one size cannot be told apart from below, so that payloads are compared by operation and size."""
    planned, seen = collections.Counter(), collections.Counter()
    for row in rank_traffic(shape, rank):
        if row.kind is TrafficKind.TRANSFER:
            assert found["sends"] == (row.num_calls, row.payload_bytes)
        elif row.num_ranks > 1:
            planned[row.kind, row.num_ranks, "calls"] += row.num_calls
            planned[row.kind, row.num_ranks, "bytes"] += row.payload_bytes
    for (op, size), (calls, num_bytes) in found["collectives"].items():
        if size > 1:
            seen[OPS[op], size, "calls"] += calls
            seen[OPS[op], size, "bytes"] += num_bytes
    assert planned == seen, rank
