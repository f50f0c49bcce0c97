"""Memory and traffic by sizes: known totals, the schedules' peaks, and activations against what autograd keeps."""

import pytest

from emberward.layout import Axis, Decoder, Mesh
from emberward.plan import StepShape, Tiling, gpipe, interleaved, layer_bytes, one_f_one_b, peak_bytes, rank_memory

BLOOM = Decoder(num_layers=70, hidden=14336, num_heads=112, ffn_hidden=57344, vocab_size=250880, seq_len=2048)
LLAMA_405B = Decoder(
    num_layers=126, hidden=16384, num_heads=128, num_kv_heads=8, ffn_hidden=53248, vocab_size=128256, seq_len=8192,
    is_gated=True, has_bias=False, has_embed_norm=False, is_tied=False,
)  # fmt: skip


def test_parameter_counts_are_those_that_the_models_cards_state():
    assert BLOOM.num_parameters() == 176_247_271_424
    assert LLAMA_405B.num_parameters() == 405_853_388_800


@pytest.mark.parametrize("pp_rank", range(4))
def test_1f1b_keeps_its_distance_from_the_end_and_gpipe_all(pp_rank):
    ones = [1] * 4
    assert peak_bytes(one_f_one_b(4, 8), pp_rank, ones) == 4 - pp_rank
    assert peak_bytes(one_f_one_b(4, 2), pp_rank, ones) == min(2, 4 - pp_rank)
    assert peak_bytes(gpipe(4, 8), pp_rank, ones) == 8


def test_interleaving_keeps_more():
    # Narayanan et al. 2021, section 2.2: warm-up of (p - r - 1) 2 + (v - 1) p forwards, then one more.
    assert peak_bytes(interleaved(4, 8, 2), 0, [1] * 8) == 2 * 3 + 4 + 1


def test_a_layer_leaves_korthikanti_s_bytes_without_masks_and_scores():
    tiling = Tiling(micro_batch=1, tp=1, sequence_parallel=False, compute_bytes=2, recompute=False)
    tokens, h = 2048, 14336
    norms_and_heads = 4 * tokens * (4 + BLOOM.num_heads)
    assert layer_bytes(BLOOM, tiling) == (34 - 2) * tokens * h + norms_and_heads


def shape(zero: int, dp: int = 8, compute_bytes: int = 2) -> StepShape:
    replicate = dp if zero == 0 else 1
    return StepShape(
        decoder=BLOOM,
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
    whole = sum(tensor.numel for layer in range(35) for tensor in BLOOM.layer_tensors(layer))
    whole += sum(tensor.numel for tensor in BLOOM.first_tensors())
    # Norms and row biases lie on each tp rank.
    replicated = sum(
        tensor.numel for layer in range(35) for tensor in BLOOM.layer_tensors(layer) if tensor.tp_dim is None
    ) + sum(tensor.numel for tensor in BLOOM.first_tensors() if tensor.tp_dim is None)
    assert sum(parts) == whole + 3 * replicated


def test_one_float32_rank_holds_no_copies():
    alone = rank_memory(shape(1, dp=1, compute_bytes=4), 0)
    assert alone.gathered_bytes == alone.unsharded_gradient_bytes == 0
    assert rank_memory(shape(1, dp=1, compute_bytes=2), 0).gathered_bytes > 0
