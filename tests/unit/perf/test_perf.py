"""Operation counts and rates, against the log of BLOOM-176B."""

import pytest

from emberward.families import ModelConfig, model_of
from emberward.perf import PEAKS, forward_flops, hardware_tflops, mfu, mfu_text, model_flops, peak_of
from emberward.report import decoder_model

# bigscience train/tr11-176B-ml/tr11-176B-ml.slurm, 48 nodes of 8 GPUs.
SHAPE = {"num_layers": 70, "hidden": 14336, "seq_len": 2048, "vocab_size": 250880}
TINY = {"num_layers": 4, "hidden": 128, "seq_len": 128, "vocab_size": 384}


def model(**shape):
    return decoder_model(**shape, num_heads=8, ffn_hidden=4 * shape["hidden"])


BLOOM = model(**SHAPE)


def bloom(step_s: float) -> float:
    return hardware_tflops(BLOOM, global_batch=2048, step_s=step_s, num_ranks=384, recompute=True)


@pytest.mark.parametrize(("step_s", "printed"), [(105.22, "149.02"), (106.46, "147.29"), (106.40, "147.37")])
def test_the_log_s_figure_comes_out(step_s, printed):
    assert f"{bloom(step_s):.2f}" == printed


@pytest.mark.parametrize(
    ("step_s", "printed"),
    [
        (105.90, 148.06),
        (106.33, 147.46),
        (107.53, 145.82),
        (106.36, 147.43),
        (106.30, 147.51),
        (106.13, 147.74),
        (106.44, 147.31),
        (106.09, 147.80),
        (105.16, 149.10),
        (105.17, 149.09),
        (106.25, 147.58),
        (110.17, 142.32),
        (111.14, 141.09),
        (111.00, 141.26),
    ],
)
def test_every_line_s_figure_lies_within_the_rounding_of_its_time(step_s, printed):
    # The log rounds the time to 0.01 s and the rate to 0.01: both roundings, nothing more.
    assert bloom(step_s + 0.005) - 0.005 <= printed <= bloom(step_s - 0.005) + 0.005


def megatron_deepspeed(*, seq_len, num_layers, hidden, vocab_size, batch, step_s, ranks, factor):
    """megatron/training.py of bigscience-workshop/Megatron-DeepSpeed, written out."""
    h, s, v = hidden, seq_len, vocab_size
    flops = 24 * factor * batch * s * num_layers * h**2 * (1 + s / (6 * h) + v / (16 * num_layers * h))
    return flops / (step_s * ranks * 1e12)


def test_with_recomputation_the_formula_is_megatron_deepspeed_s():
    for shape in (SHAPE, TINY):
        ours = hardware_tflops(model(**shape), global_batch=32, step_s=1.5, num_ranks=8, recompute=True)
        assert ours == pytest.approx(megatron_deepspeed(**shape, batch=32, step_s=1.5, ranks=8, factor=4), rel=1e-12)


def test_without_recomputation_the_logits_count_whole():
    ours = hardware_tflops(BLOOM, global_batch=2048, step_s=100.0, num_ranks=384, recompute=False)
    theirs = megatron_deepspeed(**SHAPE, batch=2048, step_s=100.0, ranks=384, factor=3)
    logits = 6 * SHAPE["hidden"] * SHAPE["vocab_size"] * 2048 * 2048 / (100.0 * 384 * 1e12)
    assert ours - theirs == pytest.approx(logits / 4)


def test_without_recomputation_hardware_and_model_operations_are_one():
    ours = hardware_tflops(BLOOM, global_batch=2048, step_s=100.0, num_ranks=384, recompute=False)
    assert ours == pytest.approx(model_flops(BLOOM) * 2048 / (100.0 * 384 * 1e12))


def test_a_layer_is_its_matrices_and_its_attention():
    sizes = {"num_layers": 3, "hidden": 8, "num_heads": 2, "seq_len": 5, "vocab_size": 11, "ffn_hidden": 20}
    layers, ends = forward_flops(decoder_model(**sizes))
    # Matrices of a layer: 4 of 8 x 8, then 8 x 20 and 20 x 8; scores and their use: 5 keys of width 8, twice.
    assert layers == 5 * 3 * 2 * (4 * 8 * 8 + 2 * 8 * 20 + 2 * 5 * 8)
    assert ends == 5 * 2 * 8 * 11
    gated, _ = forward_flops(decoder_model(**sizes, is_gated=True, has_bias=False))
    assert gated - layers == 5 * 3 * 2 * 8 * 20
    grouped, _ = forward_flops(decoder_model(**sizes, num_kv_heads=1))
    assert layers - grouped == 5 * 3 * 2 * 2 * 4 * 8


def test_windows_and_merging_count_as_they_are_declared():
    swin = ModelConfig(
        family="swin", hidden=8, depths=(1, 1), stage_heads=(2, 4), window=2, image_size=8, patch_size=2,
        num_channels=3, num_classes=10, init_std=0.02,
    )  # fmt: skip
    layers, ends = forward_flops(model_of(swin))
    # 4 x 4 then 2 x 2 tokens of 8 and 16 channels: 4 square matrices, 2 of the feed-forward's, windows of 4 tokens.
    stages = [2 * tokens * (4 * width**2 + 8 * width**2 + 2 * 4 * width) for tokens, width in ((16, 8), (4, 16))]
    assert layers == sum(stages) + 2 * 4 * 32 * 16
    assert ends == 2 * 16 * 8 * (3 * 2 * 2) + 2 * 16 * 10


@pytest.mark.parametrize(
    ("name", "tflops"),
    [
        ("NVIDIA A100-SXM4-80GB", 312.0),
        ("NVIDIA H100 80GB HBM3", 989.0),
        ("NVIDIA H100 PCIe", 756.0),
        ("NVIDIA H100 NVL", 835.0),
        ("NVIDIA H200", 989.0),
        ("nvidia h200", 989.0),
    ],
)
def test_a_known_device_has_its_dense_peak(name, tflops):
    peak = peak_of(name)
    assert peak is not None
    assert peak.tflops == tflops


@pytest.mark.parametrize("name", ["", "cpu", "NVIDIA RTX A1000", "Tesla T4", "H1000"])
def test_an_unknown_device_has_no_peak(name):
    assert peak_of(name) is None


def test_every_peak_names_its_source():
    assert all(peak.source and peak.tflops > 0 for peak in PEAKS)


def test_mfu_divides_the_model_s_need_by_the_peak():
    value = mfu(BLOOM, samples_per_s=2048 / 105.22, num_ranks=384, peak_tflops=312.0)
    # Of 149.02 TFLOPs of hardware the layers' share 1.02381 / 1.03944 counts 3 times in 4 and the logits' share whole:
    # 112.33 of 312.
    assert value is not None
    assert value == pytest.approx(112.33 / 312, rel=1e-4)
    assert mfu_text(value) == "36.0%"


def test_mfu_without_a_peak_is_not_a_number_but_absent():
    value = mfu(BLOOM, samples_per_s=1.0, num_ranks=1, peak_tflops=None)
    assert value is None
    assert mfu_text(value) == "n/a"
