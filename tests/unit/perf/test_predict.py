"""The time model: each rule against its own arithmetic. What it predicts is held against published runs in
tests/unit/report/test_published.py."""

import dataclasses

import pytest

from emberward.layout import Decoder
from emberward.perf import CLUSTERS, Numerics, Recompute, Slot, StepPlan, predict, run_schedule
from emberward.perf._hardware import A100, H100
from emberward.perf._kernels import all_reduce_s, gather_s, matmul_s, stream_s

MODEL = Decoder(num_layers=8, hidden=4096, num_heads=32, ffn_hidden=16384, vocab_size=51200, seq_len=2048)


def one_f_one_b(pp: int, num_mb: int) -> tuple[tuple[Slot, ...], ...]:
    """1F1B written out: perf and plan are strangers."""
    orders = []
    for rank in range(pp):
        warm = min(pp - rank - 1, num_mb)
        order = [Slot(rank, False, mb) for mb in range(warm)]
        for mb in range(num_mb):
            if warm + mb < num_mb:
                order.append(Slot(rank, False, warm + mb))
            order.append(Slot(rank, True, mb))
        orders.append(tuple(order))
    return tuple(orders)


def step(**changes) -> StepPlan:
    pp, num_mb = changes.pop("pp", 1), changes.pop("num_mb", 8)
    values = {
        "tp": 1, "dp": 1, "micro_batch": 1, "num_mb": num_mb, "orders": one_f_one_b(pp, num_mb),
        "stage_layers": (8 // pp,) * pp, "how": Numerics(),
    }  # fmt: skip
    return StepPlan(**{**values, **changes})


@pytest.mark.parametrize("device", [A100, H100])
def test_the_best_product_runs_at_its_measured_rate(device):
    best = device.best_bf16
    rate = 2 * best.m * best.n * best.k / matmul_s(device, best.m, best.n, best.k) / 1e12
    assert rate == pytest.approx(best.tflops)


@pytest.mark.parametrize("device", [A100, H100])
@pytest.mark.parametrize("shape", [(4096, 4096, 4096), (8192, 1024, 128), (130, 130, 8192), (32768, 28672, 8192)])
def test_no_product_beats_the_best_one_nor_the_memory(device, shape):
    m, n, k = shape
    seconds = matmul_s(device, m, n, k)
    assert seconds >= 2 * m * n * k / (device.best_bf16.tflops * 1e12) * 0.999
    assert seconds >= stream_s(device, 2 * (m * k + k * n + m * n)) * 0.999


def test_a_wave_with_one_tile_more_costs_a_whole_wave():
    # 108 processors, tiles of 256 x 128: 108 tiles are one wave, 109 are two (when no smaller tile helps).
    full, one_more = matmul_s(A100, 256 * 108, 128, 8192), matmul_s(A100, 256 * 109, 128, 8192)
    assert one_more > 1.2 * full


def test_a_short_inner_dim_reaches_less():
    def rate(k: int) -> float:
        return k / matmul_s(A100, 8192, 8192, k)

    assert rate(128) < 0.6 * rate(8192)


def test_collectives_send_what_a_ring_sends():
    link, size = CLUSTERS["a100"].inside, 2**34
    assert all_reduce_s(link, size, 8) == pytest.approx(2 * 7 / 8 * size / link.all_reduce_bytes_per_s)
    assert gather_s(link, size, 8) == pytest.approx(7 / 8 * size / link.bytes_per_s)
    assert all_reduce_s(link, 1024, 8) == link.latency_s
    assert all_reduce_s(link, size, 1) == gather_s(link, size, 1) == 0.0


def test_a_ramp_rises_and_passes_through_its_points():
    link = CLUSTERS["h200"].inside
    shares = [link.share(size) for size in (1, 2**20, 3 * 2**19, 2**21, 2**27, 2**34, 2**36)]
    assert shares == sorted(shares)
    assert link.share(2**27) == 0.833
    assert link.share(2**36) == 1.0
    # The measured time of a point comes back: 128 MiB in 584 us on 8 H200.
    assert all_reduce_s(link, 2**27, 8) == pytest.approx(584e-6, rel=0.01)


@pytest.mark.parametrize(("pp", "num_mb"), [(1, 4), (2, 4), (4, 8), (8, 64)])
def test_with_equal_stages_and_free_transfers_the_bubble_is_the_formula(pp, num_mb):
    timeline = run_schedule(
        one_f_one_b(pp, num_mb), cost_s=lambda slot: 2.0 if slot.is_backward else 1.0, transfer_s=0.0, is_blocking=False
    )
    assert timeline.seconds == pytest.approx(3 * (num_mb + pp - 1))
    assert timeline.bubble == pytest.approx((pp - 1) / (num_mb + pp - 1))


def test_blocking_transfers_cost_each_rank_all_of_them():
    orders = one_f_one_b(2, 4)

    def seconds(*, is_blocking: bool) -> float:
        return run_schedule(orders, cost_s=lambda _: 1.0, transfer_s=0.1, is_blocking=is_blocking).seconds

    free = run_schedule(orders, cost_s=lambda _: 1.0, transfer_s=0.0, is_blocking=False).seconds
    assert free < seconds(is_blocking=False) < seconds(is_blocking=True)


def test_a_schedule_that_cannot_go_on_is_refused():
    stuck = ((Slot(0, False, 0), Slot(0, True, 0)), (Slot(1, True, 0), Slot(1, False, 0)))
    with pytest.raises(ValueError, match="every rank waits"):
        run_schedule(stuck, cost_s=lambda _: 1.0, transfer_s=0.0, is_blocking=False)


def test_recomputing_layers_costs_a_third_more_of_their_work():
    plain = predict(MODEL, CLUSTERS["a100"], step())
    again = predict(MODEL, CLUSTERS["a100"], step(how=Numerics(recompute=Recompute.LAYER)))
    assert 1.2 < again.step_s / plain.step_s < 4 / 3
    assert again.mfu < plain.mfu


def test_parts_add_up_to_the_step():
    prediction = predict(MODEL, CLUSTERS["a100"], step(pp=4, tp=2, dp=4, num_mb=16))
    assert sum(prediction.parts_s.values()) == pytest.approx(prediction.step_s)


def test_more_micro_batches_shrink_the_bubble():
    few, many = (predict(MODEL, CLUSTERS["h100"], step(pp=8, num_mb=num_mb)) for num_mb in (8, 64))
    assert many.bubble < few.bubble
    assert many.mfu > few.mfu


def test_slower_links_never_help():
    cluster = CLUSTERS["a100"]
    slow = dataclasses.replace(
        cluster, between=dataclasses.replace(cluster.between, bytes_per_s=1e9, all_reduce_bytes_per_s=1e9)
    )
    plan = step(pp=4, tp=2, dp=8, num_mb=8)
    assert predict(MODEL, slow, plan).step_s > predict(MODEL, cluster, plan).step_s


def test_grouped_queries_count_less():
    grouped = dataclasses.replace(MODEL, num_kv_heads=8)
    assert grouped.layer_numel() < MODEL.layer_numel()
    assert predict(grouped, CLUSTERS["a100"], step()).step_s < predict(MODEL, CLUSTERS["a100"], step()).step_s


def test_every_entry_of_the_hardware_table_names_a_source():
    for cluster in CLUSTERS.values():
        assert cluster.device.sources
        assert cluster.inside.source
        assert cluster.between.source
