"""Tests of communication over dp against sums by hand and kernels that were measured beside a collective."""

import dataclasses

import pytest

from emberward.perf import CLUSTERS, Cluster, Numerics, Part, Slot, StepPlan, predict
from emberward.perf._dp_time import dp_link, dp_time, lost_share, outer_numel
from emberward.perf._kernels import NCCL_BLOCKS, Cost
from emberward.report import decoder_model

UNTIED = decoder_model(
    num_layers=8, hidden=4096, num_heads=32, ffn_hidden=16384, vocab_size=128256, seq_len=2048, is_tied=False,
    has_embed_norm=False,
)  # fmt: skip
TABLE = 128256 * 4096


def plan(**changes) -> StepPlan:
    values = {
        "tp": 1, "dp": 8, "micro_batch": 4, "num_mb": 1, "stage_layers": (8,), "how": Numerics(),
        "orders": ((Slot(0, Part.FORWARD, 0), Slot(0, Part.BACKWARD, 0)),), "shards_parameters": True,
    }  # fmt: skip
    return StepPlan(**{**values, **changes})


def without_ramp(name: str) -> Cluster:
    cluster = CLUSTERS[name]
    return dataclasses.replace(cluster, inside=dataclasses.replace(cluster.inside, ramp=(), latency_s=0.0))


def test_what_no_layer_holds_is_gathered_first_and_reduced_last():
    assert outer_numel(UNTIED, plan(), range(8)) == TABLE
    # A root unit has the head with its norm (two vectors) too.
    assert outer_numel(UNTIED, plan(has_root_unit=True), range(8)) == 2 * TABLE + 2 * 4096
    # Look-alikes: parameters that are not sharded, and stages without either end.
    assert outer_numel(UNTIED, plan(shards_parameters=False), range(8)) == 0
    assert outer_numel(UNTIED, plan(), range(2, 8)) == 0
    assert outer_numel(UNTIED, plan(has_root_unit=True), range(4, 8)) == TABLE + 2 * 4096
    assert outer_numel(UNTIED, plan(has_root_unit=True), range(4, 6)) == 0


def test_what_is_gathered_first_is_as_wide_as_it_is_computed():
    # By hand: 7 / 8 of 2 bytes a number forward and 4 back, layers in fp8 or not.
    for width in (1.0, 2.0):
        found = dp_time(
            without_ramp("h100"), plan(gather_bytes=width), numel=3.0 * TABLE, outer_numel=float(TABLE), layers=8
        )
        assert found.outer_gather_s == pytest.approx(2 * TABLE * 7 / 8 / 361.4e9)
        assert found.outer_scatter_s == pytest.approx(4 * TABLE * 7 / 8 / 361.4e9)
        assert found.gather_s == pytest.approx(width * 2 * TABLE * 7 / 8 / 361.4e9)


def test_computing_does_not_hide_what_is_gathered_first_and_reduced_last():
    # Of the head 2 bytes forward and 4 back are exposed in a root unit. As a layer's they would slow what they run
    # beside by half of their time, and 2 bytes more would be gathered for the backward.
    cluster = without_ramp("h100")
    alone, joined = (predict(UNTIED, cluster, plan(has_root_unit=each)).step_s for each in (False, True))
    exposed_s = 6 * TABLE * 7 / 8 / 361.4e9
    assert 0.2 * exposed_s < joined - alone < exposed_s


@pytest.mark.parametrize(
    ("kind", "measured"),
    [("matmul_s", 2.08 / 1.18), ("attention_s", 0.33 / 0.18)],
    ids=["product", "attention"],
)
def test_kernels_beside_a_collective_take_as_long_as_was_measured_on_an_a100(kind, measured):
    # NVIDIA/nccl issue 1428; no number of the table comes from it.
    cluster = CLUSTERS["a100"]
    link = dp_link(cluster, plan(), 8)
    alone = Cost(**{kind: 1.0})
    slow = Cost(matmul_s=108 / (108 - NCCL_BLOCKS)) if kind == "matmul_s" else alone
    assert 1 / (1 - lost_share(alone, slow, cluster, link)) == pytest.approx(measured, rel=0.1)


def test_a_slow_network_takes_processors_and_hardly_any_memory():
    cluster = CLUSTERS["a100"]
    slow = dataclasses.replace(cluster.between, bytes_per_s=1e9)
    found = lost_share(Cost(memory_s=1.0), Cost(memory_s=1.0), cluster, slow)
    assert found == pytest.approx(NCCL_BLOCKS / 108, rel=0.01)


def test_products_on_hopper_take_twice_as_long_whatever_the_link():
    cluster = CLUSTERS["h100"]
    link = dp_link(cluster, plan(), 8)
    assert lost_share(Cost(matmul_s=1.0), Cost(matmul_s=2.0), cluster, link) == pytest.approx(0.5)
    # All else has the processors and the memory's rate that are left.
    left = (1 - 24 / 132) * (1 - 2 * 361.4e9 / 3.35e12)
    assert lost_share(Cost(attention_s=1.0), Cost(attention_s=1.0), cluster, link) == pytest.approx(1 - left)


@pytest.mark.parametrize(("width", "numbers"), [(2.0, 500e9), (4.0, 278e9)], ids=["16 bits", "32 bits"])
def test_gradients_are_copied_in_at_the_measured_rate(width, numbers):
    # pytorch/pytorch pull request 120678, on an H100.
    found = dp_time(CLUSTERS["h100"], plan(reduce_bytes=width), numel=1e9, outer_numel=0.0, layers=8)
    assert found.copy_in_s == pytest.approx(1e9 / numbers)
