"""The time model: each rule against its own arithmetic. What it predicts is held against published runs in
tests/unit/report/test_published.py."""

import dataclasses
import math

import pytest

from emberward.families import ModelConfig, model_of
from emberward.perf import (
    CLUSTERS,
    Attention,
    Casts,
    NumberFormat,
    Numerics,
    Part,
    Recompute,
    Slot,
    Stack,
    StepPlan,
    predict,
    run_schedule,
)
from emberward.perf._attention import attention_share
from emberward.perf._devices import A100, B200, H100, MI300X, V100
from emberward.perf._kernels import all_reduce_s, gather_s, matmul_s, stream_s
from emberward.report import decoder_model

SIZES = {"num_layers": 8, "hidden": 4096, "num_heads": 32, "ffn_hidden": 16384, "vocab_size": 51200, "seq_len": 2048}
MODEL = decoder_model(**SIZES)


def one_f_one_b(pp: int, num_mb: int) -> tuple[tuple[Slot, ...], ...]:
    """1F1B written out: perf and plan import nothing of each other."""
    orders = []
    for rank in range(pp):
        warm = min(pp - rank - 1, num_mb)
        order = [Slot(rank, Part.FORWARD, mb) for mb in range(warm)]
        for mb in range(num_mb):
            if warm + mb < num_mb:
                order.append(Slot(rank, Part.FORWARD, warm + mb))
            order.append(Slot(rank, Part.BACKWARD, mb))
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
def test_the_usual_product_runs_at_its_measured_rate_and_no_shape_faster(device):
    square = 2 * 8192**3 / matmul_s(device, 8192, 8192, 8192) / 1e12
    # cuBLAS on random numbers: 257 TFLOP/s on an A100, 716 on an H100.
    assert square == pytest.approx(257 if device is A100 else 716, rel=0.001)
    best = device.best_bf16
    rate = 2 * best.m * best.n * best.k / matmul_s(device, best.m, best.n, best.k) / 1e12
    assert 0.95 * square < rate <= square * 1.0001


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


def test_a_small_product_over_a_long_inner_dim_is_split_over_the_processors():
    # One tile of 128 x 128: by itself on one processor of 108 it would take a hundred times as long.
    alone = 2 * 128 * 128 * 200_000 / (312e12 / 108)
    assert alone / 108 < matmul_s(A100, 128, 128, 200_000) < alone / 20


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
        one_f_one_b(pp, num_mb),
        cost_s=lambda slot: 2.0 if slot.part is Part.BACKWARD else 1.0,
        transfer_s=lambda _: 0.0,
        is_blocking=False,
    )
    assert timeline.seconds == pytest.approx(3 * (num_mb + pp - 1))
    assert timeline.bubble == pytest.approx((pp - 1) / (num_mb + pp - 1))


def test_blocking_transfers_cost_each_rank_all_of_them():
    orders = one_f_one_b(2, 4)

    def seconds(*, is_blocking: bool) -> float:
        return run_schedule(orders, cost_s=lambda _: 1.0, transfer_s=lambda _: 0.1, is_blocking=is_blocking).seconds

    free = run_schedule(orders, cost_s=lambda _: 1.0, transfer_s=lambda _: 0.0, is_blocking=False).seconds
    assert free < seconds(is_blocking=False) < seconds(is_blocking=True)


def test_a_schedule_that_cannot_go_on_is_refused():
    first, last = ((Slot(stage, Part.FORWARD, 0), Slot(stage, Part.BACKWARD, 0)) for stage in (0, 1))
    stuck = (first, last[::-1])
    with pytest.raises(ValueError, match="every rank waits"):
        run_schedule(stuck, cost_s=lambda _: 1.0, transfer_s=lambda _: 0.0, is_blocking=False)


def test_recomputing_layers_costs_a_third_more_of_their_work():
    plain = predict(MODEL, CLUSTERS["a100"], step())
    again = predict(MODEL, CLUSTERS["a100"], step(how=Numerics(recompute=Recompute.LAYER)))
    assert 1.2 < again.step_s / plain.step_s < 4 / 3
    assert again.mfu < plain.mfu


def test_parts_add_up_to_the_step():
    prediction = predict(MODEL, CLUSTERS["a100"], step(pp=4, tp=2, dp=4, num_mb=16))
    assert sum(prediction.parts_s.values()) == pytest.approx(prediction.step_s)


def test_a_ring_over_many_nodes_pays_for_each_hop():
    # By hand: 512 ranks on 64 nodes, 63 hops over the network and 448 inside nodes before the first piece is round;
    # 8 layers are gathered forward and backward and scattered once, the embedding gathered once, nothing hidden.
    plan = sharded(dp=512, dp_overlap=False)
    cluster = CLUSTERS["h100"]
    hops_s = 63 * 9.6e-6 + 448 * 3.4e-6
    inside = dataclasses.replace(cluster.inside, bytes_per_s=1e18)
    between = dataclasses.replace(cluster.between, bytes_per_s=1e18, latency_s=0.0)
    free = dataclasses.replace(cluster, inside=inside, between=between)
    one_node = dataclasses.replace(free, devices_per_node=512, inside=free.between)
    with_hops, without = (predict(MODEL, each, plan).step_s for each in (free, one_node))
    assert with_hops - without == pytest.approx((3 * 8 + 2) * hops_s, rel=0.01)


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
    grouped = decoder_model(**SIZES, num_kv_heads=8)
    assert grouped.layers[0].numel < MODEL.layers[0].numel
    assert predict(grouped, CLUSTERS["a100"], step()).step_s < predict(MODEL, CLUSTERS["a100"], step()).step_s


def test_every_entry_of_the_hardware_table_names_a_source():
    for cluster in CLUSTERS.values():
        assert cluster.device.sources
        assert cluster.inside.source
        assert cluster.between.source


def sharded(**changes) -> StepPlan:
    return step(**{"shards_parameters": True, "dp": 8, "num_mb": 1, **changes})


def test_sharding_exposes_the_first_gather_and_the_last_scatter_and_copies():
    # With free collectives inside the node only the copies remain: 8 bytes a parameter and micro-batch out, and
    # 6 in at the rate that was measured on an H100, 278 billion numbers a second.
    cluster = CLUSTERS["a100"]
    free = dataclasses.replace(cluster.inside, bytes_per_s=1e18, all_reduce_bytes_per_s=1e18, latency_s=0.0, ramp=())
    whole, pieces = (
        predict(MODEL, dataclasses.replace(cluster, inside=free), plan).step_s
        for plan in (step(dp=8, num_mb=1), sharded())
    )
    numel = MODEL.num_parameters
    copied_s = 8 * numel / (2.039e12 * 0.87) + numel / (278e9 * 2.039 / 3.35)
    assert pieces - whole == pytest.approx(copied_s, rel=0.01)


def test_sharding_over_one_rank_costs_nothing():
    assert predict(MODEL, CLUSTERS["a100"], sharded(dp=1)).step_s == pytest.approx(
        predict(MODEL, CLUSTERS["a100"], step(num_mb=1)).step_s
    )


def test_sharding_costs_more_over_a_slower_link_and_less_when_gathered_parameters_are_kept():
    inside, over = (predict(MODEL, CLUSTERS["a100-efa"], sharded(dp=dp)).step_s for dp in (8, 64))
    assert over > inside
    kept = predict(MODEL, CLUSTERS["a100-efa"], sharded(dp=64, keeps_gathered=True)).step_s
    assert inside < kept < over


def test_sharding_inside_a_node_helps_where_the_network_is_slow():
    over, hybrid = (
        predict(MODEL, CLUSTERS["a100-efa"], sharded(dp=64, shard_ranks=ranks, reduce_bytes=2.0)).step_s
        for ranks in (None, 8)
    )
    assert hybrid < over
    same = predict(MODEL, CLUSTERS["a100"], sharded(dp=8, shard_ranks=8)).step_s
    assert same == predict(MODEL, CLUSTERS["a100"], sharded(dp=8)).step_s


def test_a_slot_ends_no_earlier_than_it_may_and_the_rest_follows():
    orders = one_f_one_b(1, 2)
    first = Slot(0, Part.FORWARD, 0)
    timeline = run_schedule(
        orders,
        cost_s=lambda _: 1.0,
        transfer_s=lambda _: 0.0,
        is_blocking=False,
        earliest_s={first: 3.0, orders[0][-1]: 2.0},
    )
    assert timeline.end_s[first] == 3.0
    assert timeline.seconds == 6.0


def test_stages_gather_at_once_and_not_one_after_the_other():
    # By hand: with parameters so wide on the wire that their gather is all that counts, a step is that of the largest
    # stage. 8 dp ranks on 8 nodes, tp 8: one device a node, 0.9 of 200 Gb/s.
    plan = step(pp=4, dp=8, tp=8, num_mb=4, gather_bytes=2e6)
    overlapped, exposed = (
        predict(MODEL, CLUSTERS["a100"], dataclasses.replace(plan, dp_overlap=overlap)).step_s
        for overlap in (True, False)
    )
    numel = 2 * MODEL.layers[0].numel + MODEL.first.numel
    assert overlapped == pytest.approx(2e6 * numel / 8 * 7 / 8 / 22.5e9, rel=0.01)
    assert overlapped == pytest.approx(exposed, rel=0.01)


def test_gradients_scattered_after_each_micro_batch_cost_more_where_the_network_is_slow():
    once, each = (
        predict(MODEL, CLUSTERS["a100-efa"], step(dp=64, scatters_each=each)).parts_s["dp"] for each in (False, True)
    )
    assert each > 2 * once


def test_plain_data_parallelism_updates_all_parameters_on_each_rank():
    whole, sharded_ = (predict(MODEL, CLUSTERS["a100"], step(dp=8, shard_ranks=ranks)).parts_s for ranks in (1, None))
    assert whole["optimizer"] == pytest.approx(8 * sharded_["optimizer"])


def test_without_overlap_communication_costs_more():
    cluster = CLUSTERS["a100-efa"]
    hidden, exposed = (predict(MODEL, cluster, sharded(dp=64, dp_overlap=overlap)).step_s for overlap in (True, False))
    assert hidden < exposed


def test_reductions_that_ranks_start_together_are_not_added_up_along_the_stages():
    """Four micro-batches through 8 stages on 4 ranks; communication takes a part of each stage's micro-batch."""
    orders = tuple(
        tuple(
            Slot(chunk * 4 + rank, part, mb)
            for part, chunks in ((Part.FORWARD, (0, 1)), (Part.BACKWARD, (1, 0)))
            for chunk in chunks
            for mb in range(4)
        )
        for rank in range(4)
    )
    plan = step(dp=64, num_mb=4, orders=orders, stage_layers=(1,) * 8)
    waits, together, apart = (
        predict(MODEL, CLUSTERS["a100"], dataclasses.replace(plan, **changes)).step_s
        for changes in ({"dp_overlap": False}, {"starts_together": True}, {})
    )
    assert together < apart
    assert together < waits


@pytest.mark.parametrize(("stack", "num_bytes"), [(Stack.COMPILED, 8), (Stack.MEGATRON, 52)])
def test_a_compiler_casts_within_the_kernels_of_the_loss_and_megatron_has_an_operator_each(stack, num_bytes):
    fused, other = (
        predict(MODEL, CLUSTERS["a100"], step(how=Numerics(stack=each))).parts_s["memory"]
        for each in (Stack.FUSED, stack)
    )
    given = 8 * math.prod(MODEL.last.output.shape)
    assert other - fused == pytest.approx((num_bytes - 32) * given / (2.039e12 * 0.87), rel=0.01)
    assert Numerics(stack=stack).is_fused


def test_tp_over_nodes_is_priced_by_the_network():
    inside, over = (predict(MODEL, CLUSTERS["a100-efa"], step(tp=tp)).parts_s["tp"] for tp in (8, 16))
    assert over > 2 * inside


def test_asynchronous_tp_saves_no_more_than_was_measured():
    plain, hidden = (
        predict(MODEL, CLUSTERS["h100"], step(tp=8, how=Numerics(tp_overlap=overlap))).step_s
        for overlap in (False, True)
    )
    assert 0.91 * plain < hidden < plain


@pytest.mark.parametrize(("cluster", "most"), [("a100", 24 / 108), ("h100", 1 / 2)])
def test_tp_beside_the_weights_products_costs_the_processors_that_it_takes(cluster, most):
    """Of eight collectives of a layer two run beside products, which lose what a collective takes: on Hopper half."""
    alone, beside = (
        predict(MODEL, CLUSTERS[cluster], step(tp=2, micro_batch=4, how=Numerics(reduces_beside=each))).parts_s["tp"]
        for each in (False, True)
    )
    layers = alone - _head_tp_s(cluster)
    assert 1 - (alone - beside) / layers == pytest.approx(1 - 2 / 8 * (1 - most), abs=0.02)
    one = [predict(MODEL, CLUSTERS[cluster], step(how=Numerics(reduces_beside=each))).step_s for each in (False, True)]
    assert one[0] == one[1]


def _tp_s(micro_batch: int = 4, **how) -> float:
    return predict(MODEL, CLUSTERS["h100"], step(tp=4, micro_batch=micro_batch, how=Numerics(**how))).parts_s["tp"]


def test_what_is_gathered_for_products_in_fp8_was_cast_before():
    saved_s = _tp_s() - _tp_s(fmt=NumberFormat.FP8)
    inside, num_bytes = CLUSTERS["h100"].inside.among(4), 2.0 * 4 * 2048 * 4096
    # Four of a layer's eight collectives, of eight layers and micro-batches.
    assert saved_s == pytest.approx(8 * 8 * 4 * (gather_s(inside, num_bytes, 4) - gather_s(inside, num_bytes / 2, 4)))


def test_user_buffers_expose_the_last_piece_of_a_sum_and_what_outlasts_its_product():
    beside = {"reduces_beside": True}
    one_s = gather_s(CLUSTERS["h100"].inside.among(4), 2.0 * 4 * 2048 * 4096, 4)
    # Of a layer four gathers are hidden and of two sums three quarters, which hold 16 of 132 processors.
    hidden_s = 8 * 8 * one_s * (4 + 2 * 3 / 4 * (1 - 16 / 132))
    assert _tp_s(**beside) - _tp_s(**beside, tp_overlap=True) == pytest.approx(hidden_s)
    slow = dataclasses.replace(CLUSTERS["h100"], inside=CLUSTERS["h100-800g"].between)
    plan = step(tp=4, micro_batch=4, how=Numerics(**beside, tp_overlap=True))
    parts = predict(MODEL, slow, plan).parts_s
    assert parts["tp"] > 1.5 * parts["matmul"], "a slow link outlasts the products"


def _head_tp_s(cluster: str) -> float:
    """Seconds over tp of the embedding and the head, forward and backward, of eight micro-batches of four samples."""
    one, two = (
        predict(
            decoder_model(**{**SIZES, "num_layers": layers}),
            CLUSTERS[cluster],
            step(tp=2, micro_batch=4, stage_layers=(layers,)),
        ).parts_s["tp"]
        for layers in (1, 2)
    )
    return 2 * one - two


def test_recomputing_every_other_layer_lies_half_way():
    none, half, whole = (
        predict(MODEL, CLUSTERS["a100"], step(how=Numerics(recompute=Recompute.LAYER, recompute_share=share))).step_s
        for share in (0.0, 0.5, 1.0)
    )
    assert half == pytest.approx((none + whole) / 2)
    assert none == pytest.approx(predict(MODEL, CLUSTERS["a100"], step()).step_s)


def test_an_eager_gated_layer_moves_more_bytes():
    gated = decoder_model(**SIZES, is_gated=True, has_bias=False, is_tied=True)
    fused, eager = (
        predict(gated, CLUSTERS["a100"], step(how=Numerics(stack=stack))) for stack in (Stack.FUSED, Stack.EAGER)
    )
    # Passes over tokens x hidden in 16 bits of norms, additions, activation and rotation, forward and backward; fused
    # norms run at half the rate. 8 layers, 8 micro-batches of 2048 tokens.
    passes_eager = 36 + 92 + 6 + 15 + (5 + 9) * 4 + 2.5 * 12 * 3
    passes_fused = 2.5 * (2 * 4 + 6) + (3 + 5) * 4 + (2 + 2) * 3
    more_bytes = (passes_eager - passes_fused) * 2 * 2048 * 4096 * 8 * 8
    # And 19 bytes more of each logit.
    more_bytes += (24 + 27 - 20 - 12) * 2048 * 51200 * 8
    # Each kernel begins and ends with a trip to memory of half a microsecond; 2.5 passes are a kernel.
    norms = 36 + 92 - 2.5 * 4
    others = 6 + 15 - 2.5 * 6 + (5 + 9) - (3 + 5) + 2.5 * 12 - (2 + 2)
    trips_s = 1e-6 * (norms + others) / 2.5 * 8 * 8
    more_s = more_bytes / (2.039e12 * 0.87) + trips_s
    assert eager.parts_s["memory"] - fused.parts_s["memory"] == pytest.approx(more_s)
    assert eager.parts_s["matmul"] == fused.parts_s["matmul"]


@pytest.mark.parametrize("device", [A100, H100])
@pytest.mark.parametrize("is_backward", [False, True])
def test_each_generation_of_attention_is_faster_and_long_wide_heads_reach_more(device, is_backward):
    def share(kind, head_size=128, seq_len=8192):
        return attention_share(
            device, kind, head_size=head_size, seq_len=seq_len, is_backward=is_backward, is_causal=True
        )

    assert share(Attention.FLASH_1) < share(Attention.FLASH_2) <= share(Attention.CUDNN) <= share(Attention.FLASH_3) < 1
    lengths = [share(Attention.FLASH_2, seq_len=length) for length in (256, 512, 1024, 3000, 4096, 16384, 65536)]
    assert lengths == sorted(lengths)
    assert share(Attention.FLASH_2, head_size=80) < share(Attention.FLASH_2, head_size=96)
    assert share(Attention.FLASH_2, head_size=64) < share(Attention.FLASH_2, head_size=128)


def test_measured_rates_of_attention_come_back():
    # Shah et al. 2024, figure 5: causal, heads of 128, 8 Ki tokens: FlashAttention-2 333, FlashAttention-3 602.
    # Heads of 64: 295, 379 (cuDNN) and 460; without a mask and heads of 128: 370, 600 and 646.
    for kind, causal, narrow, whole in (
        (Attention.FLASH_2, 333, 295, 370), (Attention.CUDNN, 529, 379, 600), (Attention.FLASH_3, 602, 460, 646),
    ):  # fmt: skip
        for head_size, is_causal, tflops in ((128, True, causal), (64, True, narrow), (128, False, whole)):
            share = attention_share(
                H100, kind, head_size=head_size, seq_len=8192, is_backward=False, is_causal=is_causal
            )
            assert share * 989 == pytest.approx(tflops * H100.attention)


def test_attention_keeps_what_the_power_limit_leaves_of_a_short_benchmark():
    def tflops(kind, seq_len, *, is_causal):
        share = attention_share(A100, kind, head_size=128, seq_len=seq_len, is_backward=False, is_causal=is_causal)
        return share * 312

    # Measured on an A100 that 500 calls had warmed (liangan1/GPU_travel): FlashAttention-2, heads of 128.
    measured = {(1024, False): 179.11, (4096, False): 184.04, (1024, True): 143.70, (4096, True): 156.27}
    for (seq_len, is_causal), expected in measured.items():
        assert tflops(Attention.FLASH_2, seq_len, is_causal=is_causal) == pytest.approx(expected, rel=0.07)
    # The first generation, at 0.40 of the peak, stays below the limit.
    assert tflops(Attention.FLASH_1, 16384, is_causal=False) == pytest.approx(0.40 * 312)
    # B200 falls from 1450 to 1237 TFLOP/s; boards are priced by their own products.
    assert B200.attention == pytest.approx(1237 / 1450)
    assert CLUSTERS["rtx-4090"].device.attention == 1.0


def test_attention_of_an_h20_is_near_its_products():
    # Dao-AILab/flash-attention issue 1310: heads of 128 over 2,048 positions without a mask.
    board = CLUSTERS["h20"].device
    for kind, tflops, rel in (
        (Attention.CUDNN, 129.1, 1e-6),
        (Attention.FLASH_3, 126.2, 0.05),
        (Attention.FLASH_2, 83.7, 0.1),
    ):
        share = attention_share(board, kind, head_size=128, seq_len=2048, is_backward=False, is_causal=False)
        assert share * 148 == pytest.approx(tflops, rel=rel)


def test_a_causal_backward_pays_for_the_tiles_on_the_diagonal_the_less_the_longer():
    def share(seq_len, *, is_causal, is_backward=True):
        return attention_share(
            H100, Attention.FLASH_2, head_size=128, seq_len=seq_len, is_backward=is_backward, is_causal=is_causal
        )

    lost = [share(length, is_causal=True) / share(length, is_causal=False) for length in (512, 2048, 8192, 32768)]
    assert lost == sorted(lost)
    # FlashAttention-2 on an RTX 4090, 2,048 positions.
    assert lost[1] == pytest.approx(99.23 / 124.57)
    # Hopper's own kernels lose more: FlashAttention-3 on an H100, TFLOP/s by length (tritonbench 1256 and 1267).
    for seq_len, whole, half in ((1024, 313.3, 181.6), (2048, 434.8, 315.9), (4096, 519.8, 444.0)):
        own = [
            attention_share(H100, Attention.FLASH_3, head_size=128, seq_len=seq_len, is_backward=True, is_causal=each)
            for each in (True, False)
        ]
        assert own[0] / own[1] == pytest.approx(half / whole, rel=0.03)
    # The forward's rates were measured with a causal mask and without one: 298 and 362 TFLOP/s.
    halves = [share(2048, is_causal=is_causal, is_backward=False) for is_causal in (True, False)]
    assert halves[0] / halves[1] == pytest.approx(298 / 362)


def test_attention_of_a_board_stands_to_its_best_product_as_on_an_a100():
    def tflops(device):
        share = attention_share(
            device, Attention.FLASH_2, head_size=128, seq_len=2048, is_backward=False, is_causal=True
        )
        return share * device.peak_tflops / device.best_bf16.tflops

    board = CLUSTERS["rtx-4090"].device
    assert tflops(board) * A100.attention == pytest.approx(tflops(A100))
    # Measured on an RTX 4090, forward: 151.19 TFLOP/s; a prediction is no faster.
    assert tflops(board) * board.best_bf16.tflops < 151.19


@pytest.mark.parametrize(
    ("casts", "num_bytes", "weights", "each"),
    [
        (Casts.KERNEL, 4, 1 / 8, 1),
        (Casts.CURRENT, 6, 1 / 8, 2),
        (Casts.BLOCKS, 4, 1 / 8, 1),
        (Casts.COMPILED, 7, 1, 3),
        (Casts.EAGER, 35, 1, 7),
    ],
)
def test_casts_to_fp8_move_what_their_kernels_move(casts, num_bytes, weights, each):
    """Inputs and gradients of a layer's products with each micro-batch, its weights with the first or with each."""
    model = decoder_model(**SIZES, has_bias=False)
    stack = {"stack": Stack.EAGER, "attention": Attention.FLASH_2}

    def memory_s(**how) -> float:
        return predict(model, CLUSTERS["h100"], step(how=Numerics(**stack, **how))).parts_s["memory"]

    cast_s = memory_s(fmt=NumberFormat.FP8, casts=casts) - memory_s()
    # Inputs: hidden for queries, keys and values, for the result and for the feed-forward, and its width; results: 3
    # and 1 hidden, the width, and hidden.
    tokens = 2048 * (3 * 4096 + 16384 + 5 * 4096 + 16384)
    numel = tokens + weights * 12 * 4096**2
    kernels = each * 4 * (2 + weights)
    assert cast_s == pytest.approx(8 * 8 * (num_bytes * numel / (3.35e12 * 0.9) + kernels * 1e-6), rel=1e-6)


def test_on_blackwell_transformer_engine_writes_one_copy_unless_its_scales_are_of_blocks():
    def memory_s(casts: Casts) -> float:
        how = Numerics(fmt=NumberFormat.FP8, casts=casts)
        return predict(MODEL, CLUSTERS["b200"], step(how=how, num_mb=1)).parts_s["memory"]

    numel = 8 * (2048 * (8 * 4096 + 2 * 16384) + 12 * 4096**2)
    assert memory_s(Casts.BLOCKS) - memory_s(Casts.KERNEL) == pytest.approx(numel / (8e12 * 0.9), rel=1e-6)


def test_weights_that_were_gathered_in_fp8_are_not_cast_again():
    how = Numerics(fmt=NumberFormat.FP8, casts=Casts.COMPILED)
    wide, narrow = (
        predict(MODEL, CLUSTERS["h100"], step(how=how, dp=8, shards_parameters=True, gather_bytes=width))
        for width in (2.0, 1.0)
    )
    weights_s = 8 * 8 * (7 * 12 * 4096**2 / (3.35e12 * 0.9) + 4 * 3 * 1e-6)
    assert wide.parts_s["memory"] - narrow.parts_s["memory"] == pytest.approx(weights_s)


def test_gradients_with_buffers_of_their_own_are_added_from_the_first_micro_batch_on_and_zeroed():
    def parts(**changes):
        return predict(MODEL, CLUSTERS["a100"], step(num_mb=1, accumulate_bytes=8.0, **changes)).parts_s

    plain, kept = parts(), parts(keeps_gradients=True)
    numel = sum(math.prod(tensor.shape) for tensor in MODEL.tensors.values() if tensor.tied_to is None)
    rate = 2.039e12 * 0.87
    assert kept["memory"] - plain["memory"] == pytest.approx(8 * numel / rate)
    assert kept["optimizer"] - plain["optimizer"] == pytest.approx(4 * numel / rate)
    # Look-alike: with more micro-batches both add each.
    more = [
        predict(MODEL, CLUSTERS["a100"], step(num_mb=2, keeps_gradients=each)).parts_s["memory"]
        for each in (False, True)
    ]
    assert more[0] == more[1]


def test_a_dense_mask_costs_both_halves_of_the_square_and_the_mask():
    causal, dense = (
        predict(MODEL, CLUSTERS["a100"], step(how=Numerics(attention=kind))).parts_s
        for kind in (Attention.FLASH_1, Attention.DENSE_MASK)
    )
    # Each kind of mask has a forward rate of its own; a causal backward over 2048 positions runs at 99.23 / 124.57 of
    # one that is not. A backward is 2.5 forwards.
    half, whole, backward = (
        1 / attention_share(A100, Attention.FLASH_1, head_size=128, seq_len=2048, is_backward=each, is_causal=is_causal)
        for each, is_causal in ((False, True), (False, False), (True, False))
    )
    diagonal = (half + 2.5 * backward * 124.57 / 99.23) / (whole + 2.5 * backward)
    assert dense["attention"] == pytest.approx(2 * causal["attention"] / diagonal)
    # 8 micro-batches, 8 layers, forward and backward, 32 heads of 2048 x 2048 masks of 2 bytes.
    mask_s = 8 * 8 * 2 * 32 * 2048**2 * 2 / (2.039e12 * 0.87)
    assert dense["memory"] - causal["memory"] == pytest.approx(mask_s)


def test_a_range_holds_its_prediction():
    for plan in (step(), sharded(dp=64), step(tp=8, how=Numerics(tp_overlap=True)), step(pp=4, num_mb=16)):
        found = predict(MODEL, CLUSTERS["h100"], plan)
        assert found.fastest_s < found.step_s < found.slowest_s


def test_a_model_of_unequal_layers_is_priced_block_by_block_and_its_edges_by_their_shape():
    swin = ModelConfig(
        family="swin", hidden=96, depths=(2, 2, 6, 2), stage_heads=(3, 6, 12, 24), window=7, image_size=224,
        patch_size=4, num_channels=3, num_classes=1000, init_std=0.02,
    )  # fmt: skip
    model, how = model_of(swin), Numerics(attention=Attention.DENSE_MASK, sequence_parallel=False)
    whole = predict(model, CLUSTERS["a100"], step(micro_batch=64, stage_layers=(12,), how=how))
    assert sum(whole.parts_s.values()) == pytest.approx(whole.step_s)
    assert whole.tokens_per_s == pytest.approx(8 * 64 / whole.step_s), "images are counted, one a sample"
    # 4.5 billion multiply-adds an image forward (Liu et al. 2021, table 1), thrice for a step.
    assert whole.tflops == pytest.approx(3 * 2 * 4.5e-3 * whole.tokens_per_s, rel=0.01)
    uneven, even = (
        predict(model, CLUSTERS["a100"], step(pp=2, micro_batch=64, stage_layers=cut, how=how)).step_s
        for cut in ((10, 2), (4, 8))
    )
    assert whole.step_s / 2 < even < uneven < whole.step_s


def test_ranks_wait_for_the_slowest_device_and_one_waits_for_none():
    def products_s(dp: int) -> float:
        return predict(MODEL, CLUSTERS["a100"], step(dp=dp)).parts_s["matmul"]

    # The slowest of 8 draws from a normal distribution lies 1.42 deviations below its mean (Blom's formula: 1.43), of
    # 1024 3.24; a deviation is 8% / 5.4.
    assert products_s(1) / products_s(8) == pytest.approx(1 - 1.42 * 0.08 / 5.4, abs=0.0005)
    assert products_s(1) / products_s(1024) == pytest.approx(1 - 3.24 * 0.08 / 5.4, abs=0.0005)


def test_on_hopper_a_tile_is_written_while_the_next_is_computed():
    # Hugging Face, The Smol Training Playbook: 16384 x 8192 over 1280 at 714.5 TFLOP/s, over 7168 at 752.9.
    rates = [2 * 16384 * 8192 * k / matmul_s(H100, 16384, 8192, k) for k in (1280, 7168)]
    assert rates[0] / rates[1] == pytest.approx(714.5 / 752.9, abs=0.03)


@pytest.mark.parametrize(
    ("changes", "num_bytes"),
    [
        # Without accumulation the casts alone; each way 6 bytes a parameter and micro-batch.
        ({"num_mb": 8, "cast_bytes": 12.0}, 8 * 12),
        ({"optimizer_bytes": 98.0}, 98 - 42),
    ],
)
def test_casts_and_the_update_move_their_bytes(changes, num_bytes):
    with_it, without = (predict(MODEL, CLUSTERS["a100"], step(**each)).step_s for each in (changes, {}))
    assert with_it - without == pytest.approx(num_bytes * MODEL.num_parameters / (2.039e12 * 0.87), rel=0.001)


def test_an_eager_update_makes_a_pass_for_each_operator():
    fused, eager = (
        predict(MODEL, CLUSTERS["a100"], step(how=Numerics(stack=stack))).parts_s["optimizer"]
        for stack in (Stack.FUSED, Stack.EAGER)
    )
    assert eager == pytest.approx(98 / 42 * fused)


def test_kernels_are_a_gap_apart():
    few, many = (
        predict(MODEL, CLUSTERS["a100"], step(micro_batch=8 // num_mb, num_mb=num_mb)).parts_s["host"]
        for num_mb in (1, 8)
    )
    assert many == pytest.approx(8 * few)
    assert 8 * 8 * 20 * 0.9e-6 < many < 8 * 8 * 60 * 0.9e-6, "20 to 60 kernels a layer and micro-batch"


@pytest.mark.parametrize(
    ("device", "size", "times"),
    [
        ("h100", 16384, 2.0),
        ("a100", 16384, 108 / 84),
        ("h100", 1024, 1.0),
        ("a100", 1024, 1.0),
    ],
    ids=[
        "all blocks at once",
        "a block a tile",
        "fewer blocks than are free",
        "fewer tiles than are free",
    ],
)
def test_a_product_beside_a_collective_waits_for_the_processors_it_lost(device: str, size: int, times: float):
    alone = CLUSTERS[device].device
    beside = dataclasses.replace(alone, taken_sms=24)
    found = matmul_s(beside, size, size, 8192) / matmul_s(alone, size, size, 8192)
    assert found == pytest.approx(times, rel=0.03)


def test_on_blackwell_a_product_beside_a_collective_loses_no_more_than_the_processors():
    beside = dataclasses.replace(B200, taken_sms=24)
    found = matmul_s(beside, 16384, 16384, 8192) / matmul_s(B200, 16384, 16384, 8192)
    # Alone it is capped at the best product's rate, so that it loses a little less.
    assert 1.1 < found <= 148 / 124 * 1.01


def test_a_reduction_beside_the_last_backward_takes_processors_from_it():
    # One rank a node, a slow network: all of the last micro-batch's backward runs beside the reduction.
    cluster = dataclasses.replace(CLUSTERS["a100"], devices_per_node=1)
    busy = predict(MODEL, cluster, step(dp=4, reduce_bytes=400.0))
    free = predict(MODEL, cluster, step(dp=4, reduce_bytes=400.0, dp_overlap=False))
    assert busy.step_s < free.step_s


@pytest.mark.parametrize(
    ("sizes", "tflops"),
    [
        ((1760, 7000, 1760), 89.4),
        ((2048, 7000, 2048), 98.0),
        ((2560, 7000, 2560), 103.8),
        ((4096, 7000, 4096), 112.3),
        ((1760, 7136, 1760), 97.8),
        ((4096, 7136, 4096), 108.8),
        ((5128, 9128, 1760), 94.4),
        ((5128, 9128, 4096), 103.5),
        ((3072, 7440, 1024), 102.6),
        ((7680, 5488, 2560), 108.6),
        ((7680, 24000, 2560), 104.8),
        ((8448, 24000, 2816), 106.8),
    ],
)
def test_products_of_a_v100_run_at_rates_that_were_measured_apart(sizes, tflops):
    """DeepBench, results/train/DeepBench_NV_V100.xlsx (CUDA 10.1), its sizes padded to 8 as it runs them; no entry of
    the table is made from it. Its numbers are uniform in (0, 1] (code/nvidia/tensor.h), and what numbers of both signs
    take from the rate is `usual_share`."""
    m, n, k = sizes
    device = dataclasses.replace(V100, usual_share=1.0)
    assert 2 * m * n * k / matmul_s(device, m, n, k) / 1e12 == pytest.approx(tflops, rel=0.12)


@pytest.mark.parametrize(("columns", "share"), [(50304, 1.0), (50256, 1.0), (50258, 272.73 / 398.38), (50257, 0.395)])
@pytest.mark.parametrize("device", [V100, A100, H100])
def test_a_product_whose_rows_are_not_aligned_runs_slower(device, columns, share):
    # Per column, so that a column more or less is not seen: products of one width are compared with the padded one.
    found = (matmul_s(device, 8192, 50304, 1024) / 50304) / (matmul_s(device, 8192, columns, 1024) / columns)
    assert found == pytest.approx(share, rel=0.01)


def test_of_a_layer_only_its_widths_must_be_aligned_not_its_tokens():
    def products_s(seq_len: int, ffn_hidden: int) -> float:
        model = decoder_model(**{**SIZES, "seq_len": seq_len, "ffn_hidden": ffn_hidden})
        return predict(model, CLUSTERS["a100"], step()).parts_s["matmul"]

    aligned = products_s(2048, 16384)
    assert products_s(2047, 16384) == pytest.approx(aligned, rel=0.01)
    # Of a layer's 12 h^2 the feed-forward's 8 are no longer aligned, each way; the head is as it was.
    head = 51200 / (8 * 12 * 4096 + 51200)
    assert products_s(2048, 16383) / aligned == pytest.approx(head + (1 - head) * (1 / 3 + 2 / 3 / 0.395), rel=0.03)


def test_code_that_writes_its_functions_out_moves_what_each_operator_moves():
    how = {"attention": Attention.SCORES_IN_MEMORY}
    eager, written = (
        predict(MODEL, CLUSTERS["a100"], step(how=Numerics(stack=stack, **how))).parts_s["memory"]
        for stack in (Stack.EAGER, Stack.WRITTEN_OUT)
    )
    # 8 layers and micro-batches. GELU: 18 passes and 28 instead of 2 and 3, over 2048 x 16384; scores: scale, where and
    # mask forward (6), scale and where backward (4), over 32 heads of 2048 x 2048; two bytes a pass.
    more_bytes = 8 * 8 * 2 * (41 * 2048 * 16384 + 10 * 32 * 2048**2)
    # A trip to memory before and after each of the kernels, of 2.5 passes and over the scores of 2.
    trips_s = 8 * 8 * (41 / 2.5 + 6) * 1e-6
    assert written - eager == pytest.approx(more_bytes / (2.039e12 * 0.87) + trips_s)


@pytest.mark.parametrize(
    ("stack", "score_passes", "gelu_passes", "score_kernels"),
    [(Stack.FUSED, 0, 0, 0), (Stack.EAGER, 17, 0, 8), (Stack.WRITTEN_OUT, 17, 46, 8)],
)
def test_autocast_keeps_the_stream_wide_and_an_eager_softmax_too(stack, score_passes, gelu_passes, score_kernels):
    plain, wide = (
        predict(
            MODEL,
            CLUSTERS["a100"],
            step(how=Numerics(stack=stack, attention=Attention.SCORES_IN_MEMORY, is_autocast=wide)),
        ).parts_s["memory"]
        for wide in (False, True)
    )
    # Norms (4 passes) and additions (6), backward 1.5 times that, two bytes more; norms at half the rate.
    more_bytes = (
        8 * 8 * 2 * (2.5 * (4 * 2 + 6) * 2048 * 4096 + score_passes * 32 * 2048**2 + gelu_passes * 2048 * 16384)
    )
    assert wide - plain == pytest.approx(more_bytes / (2.039e12 * 0.87) + 8 * 8 * score_kernels * 1e-6)


def test_a_tiny_eager_model_waits_for_its_host_and_a_large_one_does_not():
    tiny = decoder_model(
        **{**SIZES, "hidden": 128, "num_heads": 2, "ffn_hidden": 512, "vocab_size": 512, "seq_len": 64}
    )

    def host_s(model, stack) -> float:
        return predict(model, CLUSTERS["a100"], step(how=Numerics(stack=stack))).parts_s["host"]

    # 8 micro-batches of 8 layers of 20 to 60 kernels, 10 us each, where a fused stack leaves the gaps alone.
    assert 8 * 8 * 20 * 5e-6 < host_s(tiny, Stack.EAGER) < 8 * 8 * 60 * 10e-6
    assert host_s(tiny, Stack.EAGER) > 3 * host_s(tiny, Stack.FUSED)
    assert host_s(MODEL, Stack.EAGER) == pytest.approx(host_s(MODEL, Stack.FUSED), rel=0.6)


def test_few_devices_sum_by_a_ring_where_the_switch_is_not_asked():
    # ml-engineering, network/README.md: 363 GB/s on 4 H200, 473 on 8.
    link = CLUSTERS["h200"].inside
    assert link.among(4).all_reduce_bytes_per_s == link.bytes_per_s
    assert link.among(8).all_reduce_bytes_per_s > 1.3 * link.bytes_per_s


def test_two_devices_without_a_switch_have_one_link_between_them():
    inside = CLUSTERS["mi300x"].inside
    # 47.7 GB/s on two of eight MI300X, 312.9 on all (ml-engineering, network/README.md).
    assert inside.among(2).bytes_per_s == pytest.approx(47.7e9, rel=0.1)
    assert inside.among(8) == inside
    assert CLUSTERS["h100"].inside.among(2).bytes_per_s == CLUSTERS["h100"].inside.bytes_per_s


def test_four_gh200_have_a_link_to_each_other_and_less_power_than_an_h100():
    gh200, h100 = CLUSTERS["gh200"], CLUSTERS["h100"]
    assert gh200.inside.among(2).bytes_per_s == pytest.approx(gh200.inside.among(4).bytes_per_s / 3)
    assert gh200.inside.among(4).bytes_per_s == h100.inside.among(4).bytes_per_s
    assert gh200.inside.among(4).all_reduce_bytes_per_s == gh200.inside.bytes_per_s, "no switch sums"
    slower = matmul_s(gh200.device, 8192, 8192, 8192) / matmul_s(h100.device, 8192, 8192, 8192)
    assert slower == pytest.approx(989 / 927.4, rel=0.001)


@pytest.mark.parametrize("device", [B200, MI300X])
def test_attention_of_later_devices_stays_below_their_best_product(device):
    best = device.best_bf16.tflops / device.peak_tflops
    shares = {
        kind: attention_share(device, kind, head_size=128, seq_len=16384, is_backward=False, is_causal=True)
        for kind in (Attention.FLASH_2, Attention.CUDNN, Attention.FLASH_3)
    }
    assert shares[Attention.FLASH_2] < shares[Attention.CUDNN] < shares[Attention.FLASH_3] < best
    # cuDNN on B200: 1613 / 1.3 TFLOP/s.
    if device is B200:
        assert shares[Attention.CUDNN] * device.peak_tflops == pytest.approx(1613 / 1.3 * B200.attention, rel=0.02)
