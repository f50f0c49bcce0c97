"""Memory and traffic by sizes: known totals, the schedules' peaks, and activations against what autograd keeps."""

from dataclasses import replace

import pytest

from emberward.families import LlamaConfig, ModelConfig, model_of
from emberward.layout import Axis, Cut, Mesh, Normal, TensorSpec, Whole
from emberward.plan import (
    StepShape,
    Tiling,
    block_bytes,
    gpipe,
    interleaved,
    late_bytes,
    one_f_one_b,
    peak_bytes,
    rank_memory,
    zb_h1,
)

BLOOM = model_of(
    ModelConfig(
        num_layers=70, hidden=14336, num_heads=112, ffn_hidden=57344, vocab_size=250880, seq_len=2048, init_std=0.0048
    )
)
LLAMA_405B = model_of(
    ModelConfig(
        family="llama", num_layers=126, hidden=16384, num_heads=128, ffn_hidden=53248, vocab_size=128256, seq_len=8192,
        init_std=0.02, llama=LlamaConfig(num_kv_heads=8),
    )
)  # fmt: skip


def test_parameter_counts_are_those_that_the_models_cards_state():
    assert BLOOM.num_parameters == 176_247_271_424
    assert LLAMA_405B.num_parameters == 405_853_388_800


def test_key_heads_are_shared_by_tp_neighbours_and_owned_once():
    key = LLAMA_405B.tensors["blocks.0.attention.k.weight"]
    assert [key.box(16, rank)[0] for rank in (0, 1, 2, 15)] == [(0, 128), (0, 128), (128, 256), (896, 1024)]
    assert (key.copies(16), key.copies(8), key.copies(4)) == (2, 1, 1)
    assert key.is_partial(16, splits_positions=False) and not key.is_partial(8, splits_positions=True)


def test_heads_that_tp_does_not_divide_are_cut_between_heads():
    """Swin-T's first stage: 3 heads of 32 over two ranks."""
    query = TensorSpec(name="q", shape=(96, 96), over_tp=Cut(dim=0, units=3), init=Normal(std=0.02), decays=True)
    assert [query.local_shape(2, rank) for rank in (0, 1)] == [(64, 96), (32, 96)]


@pytest.mark.parametrize("pp_rank", range(4))
def test_1f1b_keeps_its_distance_from_the_end_and_gpipe_all(pp_rank):
    ones = [1] * 4
    assert peak_bytes(one_f_one_b(4, 8), pp_rank, ones) == 4 - pp_rank
    assert peak_bytes(one_f_one_b(4, 2), pp_rank, ones) == min(2, 4 - pp_rank)
    assert peak_bytes(gpipe(4, 8), pp_rank, ones) == 8


def test_interleaving_keeps_more():
    # Narayanan et al. 2021, section 2.2: warm-up of (p - r - 1) 2 + (v - 1) p forwards, then one more.
    assert peak_bytes(interleaved(4, 8, 2), 0, [1] * 8) == 2 * 3 + 4 + 1


def test_between_the_parts_of_a_backward_a_layer_holds_inputs_and_gradients_of_its_products():
    tiling = Tiling(micro_batch=1, tp=1, sequence_parallel=False, compute_bytes=2, recompute=False)
    assert late_bytes(BLOOM.layers[0], tiling) == 32 * 2048 * 14336
    assert late_bytes(BLOOM.layers[0], replace(tiling, tp=2)) == (32 + 8) // 2 * 2048 * 14336
    # Without what waits for W the peak of ZB-H1 is that of 1F1B.
    assert [peak_bytes(zb_h1(4, 8), rank, [10] * 4) for rank in range(4)] == [40] * 4
    assert [peak_bytes(zb_h1(4, 8), rank, [10] * 4, [1] * 4) for rank in range(4)] == [40, 31, 22, 13]


def test_a_layer_leaves_korthikanti_s_bytes_without_masks_and_scores():
    tiling = Tiling(micro_batch=1, tp=1, sequence_parallel=False, compute_bytes=2, recompute=False)
    tokens, h = 2048, 14336
    norms_and_heads = 4 * tokens * (4 + 112)
    # ALiBi without a mask: eight columns a head in q, k, v and the result, and the result without them.
    folded = 2 * tokens * (4 * 8 * 112 + h)
    assert block_bytes(BLOOM.layers[0], tiling) == (34 - 2) * tokens * h + norms_and_heads + folded


def shape(zero: int, dp: int = 8, compute_bytes: int = 2) -> StepShape:
    replicate = dp if zero == 0 else 1
    return StepShape(
        model=BLOOM,
        mesh=Mesh(axes=((Axis.PP, 2), (Axis.DP_REPLICATE, replicate), (Axis.DP_SHARD, dp // replicate), (Axis.TP, 4))),
        stage_layers=(range(35), range(35, 70)),
        schedule=one_f_one_b(2, 8),
        zero=zero,
        tiling=Tiling(micro_batch=1, tp=4, sequence_parallel=True, compute_bytes=compute_bytes, recompute=True),
    )


def test_each_zero_stage_holds_no_more_than_the_one_before():
    totals = [rank_memory(shape(zero), 0).total_bytes for zero in (0, 1, 2, 3)]
    assert totals == sorted(totals, reverse=True)
    assert totals[3] < totals[0] / 4


def test_parts_over_dp_and_tp_add_up_to_the_model():
    parts = [rank_memory(shape(1), rank).num_parameters for rank in range(32)]  # one pipeline rank
    held = list(BLOOM.tensors_of(range(36)))
    # Norms and row biases lie on each tp rank.
    replicated = sum(tensor.numel for tensor in held if isinstance(tensor.over_tp, Whole))
    whole = sum(tensor.numel for tensor in held)
    assert sum(parts) == whole + 3 * replicated


def test_one_float32_rank_holds_no_copies():
    alone = rank_memory(shape(1, dp=1, compute_bytes=4), 0)
    assert alone.gathered_bytes == alone.unsharded_gradient_bytes == 0
    assert rank_memory(shape(1, dp=1, compute_bytes=2), 0).gathered_bytes > 0
