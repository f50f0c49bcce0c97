"""Every layout trains as one process does: losses, gradients and norms, held against plain torch."""

import functools

import numpy as np
import pytest

from ranks.cases import assemble, engine_run, plain_run, relative
from ranks.distance import GRADIENT, NORMS, gradient_error, require_exact

STEPS = 8

MODEL_KEYS = ("seq_len", "family", "kv_heads", "head_size", "tied", "rate")

GRID = {
    "one rank": {},
    "dp2": {"dp": 2},
    "dp2 zero0 acc2": {"dp": 2, "zero": 0, "accumulation": 2},
    "dp4 zero2 acc2": {"dp": 4, "zero": 2, "accumulation": 2},
    "dp4 zero3 acc2": {"dp": 4, "zero": 3, "accumulation": 2},
    "dp4 zero3 acc2 with room for three layers": {"dp": 4, "zero": 3, "accumulation": 2, "gathered_gb": 0.00017},
    "hsdp 2x2 zero3": {"dp": 4, "dp_replicate": 2, "zero": 3, "accumulation": 2},
    "dp4 zero1 on the cpu": {"dp": 4, "zero": 1, "device": "cpu"},
    "dp4 zero2 acc2 on the cpu": {"dp": 4, "zero": 2, "accumulation": 2, "device": "cpu"},
    "hsdp 2x2 zero3 on the cpu": {"dp": 4, "dp_replicate": 2, "zero": 3, "accumulation": 2, "device": "cpu"},
    "tp2": {"tp": 2},
    "tp4 without sequence parallel": {"tp": 4, "sequence_parallel": False, "accumulation": 2},
    "tp2 with a sequence that tp does not divide": {"tp": 2, "sequence_parallel": None, "seq_len": 15},
    "pp2 acc4 1f1b": {"pp": 2, "accumulation": 4},
    "pp4 acc8 gpipe": {"pp": 4, "accumulation": 8, "schedule": "gpipe"},
    "pp2 interleaved zero3": {
        "dp": 2, "pp": 2, "zero": 3, "accumulation": 4, "schedule": "interleaved", "stages_per_rank": 2,
    },
    "dp2 tp2 pp2 1f1b": {"dp": 2, "tp": 2, "pp": 2, "accumulation": 4},
    "dp2 tp2 pp2 gpipe zero2": {"dp": 2, "tp": 2, "pp": 2, "accumulation": 8, "zero": 2, "schedule": "gpipe"},
    "tp2 pp4": {"tp": 2, "pp": 4, "accumulation": 4},
    "dp2 recompute": {"dp": 2, "recompute": True, "accumulation": 2},
    "llama one rank": {"family": "llama", "kv_heads": 2, "accumulation": 2},
    "llama dp2 tp2 pp2 zero3": {
        "family": "llama", "kv_heads": 2, "dp": 2, "tp": 2, "pp": 2, "accumulation": 4, "zero": 3,
    },
    "llama dp2 tp4 over two key heads zero2": {
        "family": "llama", "kv_heads": 2, "head_size": 12, "dp": 2, "tp": 4, "accumulation": 2, "zero": 2,
    },
    "llama tied pp2 recompute": {
        "family": "llama", "kv_heads": 4, "tied": True, "pp": 2, "accumulation": 4, "recompute": True,
    },
    "llama tp4 over one key head without sequence parallel": {
        "family": "llama", "kv_heads": 1, "tp": 4, "sequence_parallel": False, "recompute": True,
    },
    "llama tp4 over two key heads pp2 zb_h1": {
        "family": "llama", "kv_heads": 2, "tp": 4, "pp": 2, "accumulation": 4, "schedule": "zb_h1",
    },
    "llama hsdp 2x2 zero3": {
        "family": "llama", "kv_heads": 2, "dp": 4, "dp_replicate": 2, "zero": 3, "accumulation": 2,
    },
    "llama tied dp2 tp2 zero0": {"family": "llama", "kv_heads": 2, "tied": True, "dp": 2, "tp": 2, "zero": 0},
    "llama dp2 pp2 interleaved zero3": {
        "family": "llama", "kv_heads": 2, "dp": 2, "pp": 2, "zero": 3, "accumulation": 4, "schedule": "interleaved",
        "stages_per_rank": 2,
    },
    "roberta one rank acc2": {"family": "roberta", "accumulation": 2},
    "roberta pp2 acc8 dropout gpipe recompute": {
        "family": "roberta", "rate": 0.05, "pp": 2, "accumulation": 8, "schedule": "gpipe", "recompute": True,
    },
    "roberta dp2 tp2 pp2 dropout zero3": {
        "family": "roberta", "rate": 0.05, "dp": 2, "tp": 2, "pp": 2, "accumulation": 4, "zero": 3, "gathered_gb": 2.0,
    },
    "roberta tp4 dropout": {"family": "roberta", "rate": 0.05, "tp": 4, "accumulation": 2},
    "roberta tp2 dropout without sequence parallel": {
        "family": "roberta", "rate": 0.05, "tp": 2, "sequence_parallel": False, "accumulation": 2,
    },
    "roberta dp2 tp2 zero2": {"family": "roberta", "dp": 2, "tp": 2, "accumulation": 2, "zero": 2},
    "roberta tp2 with a sequence that tp does not divide": {
        "family": "roberta", "tp": 2, "sequence_parallel": None, "seq_len": 15,
    },
    "roberta hsdp 2x2 zero3 dropout": {
        "family": "roberta", "rate": 0.05, "dp": 4, "dp_replicate": 2, "zero": 3, "accumulation": 2,
    },
    "roberta dp2 pp2 interleaved zero2": {
        "family": "roberta", "dp": 2, "pp": 2, "zero": 2, "accumulation": 4, "schedule": "interleaved",
        "stages_per_rank": 2,
    },
    "roberta tp2 pp2 zb_h1 dropout": {
        "family": "roberta", "rate": 0.05, "tp": 2, "pp": 2, "accumulation": 4, "schedule": "zb_h1",
    },
    "roberta tp2 pp4 zero0": {"family": "roberta", "tp": 2, "pp": 4, "accumulation": 4, "zero": 0},
    "roberta dp2 pp2 zb_v zero3": {
        "family": "roberta", "dp": 2, "pp": 2, "zero": 3, "accumulation": 4, "schedule": "zb_v", "stages_per_rank": 2,
    },
}  # fmt: skip


@functools.cache
def reference(**sizes):
    return plain_run(steps=STEPS, keep_grads_of=0, **sizes)


def num_ranks(layout) -> int:
    return layout.get("dp", 1) * layout.get("tp", 1) * layout.get("pp", 1)


@pytest.mark.parametrize("layout", GRID.values(), ids=GRID.keys())
def test_a_layout_equals_one_process(pool, layout):
    answers = pool.run(engine_run, num_ranks(layout), steps=STEPS, keep_grads_of=0, **layout)
    expected = reference(**{name: size for name, size in layout.items() if name in MODEL_KEYS})
    assert expected["loss"][-1] < 0.9 * expected["loss"][0]
    assert require_exact(answers, expected)["norms"] < NORMS
    grads = assemble(answers, "grads")
    for name, whole in grads.items():
        assert np.abs(whole - expected["grads"][name]).max() < 1e-5 * np.abs(expected["grads"][name]).max() + 1e-7, name


def test_a_gradient_that_is_one_percent_wrong_is_caught(pool):
    answers = pool.run(engine_run, 4, steps=1, keep_grads_of=0, dp=2, tp=2, poison="one_percent")
    assert gradient_error(assemble(answers, "grads"), reference()["grads"]) > 10 * GRADIENT


def test_the_same_layout_twice_is_bitwise_equal(pool):
    layout = {"dp": 2, "tp": 2, "pp": 2, "accumulation": 4}
    first, second = (pool.run(engine_run, 8, steps=5, keep_grads_of=4, **layout) for _ in range(2))
    for one, two in zip(first, second, strict=True):
        assert one["loss"] == two["loss"]
        assert one["norm"] == two["norm"]
        for (name, _, box, a), (_, _, _, b) in zip(one["grads"], two["grads"], strict=True):
            assert a.tobytes() == b.tobytes(), (name, box)


def replicas_agree(answers) -> bool:
    """Whether every copy of every piece of a norm or bias has the same bits."""
    copies: dict[tuple, bytes] = {}
    for answer in answers:
        for name, box, values in answer["replicas"]:
            if copies.setdefault((name, box), values.tobytes()) != values.tobytes():
                return False
    return True


def test_clipping_is_the_same_on_every_rank_so_replicas_stay_equal(pool):
    layout = {"dp": 2, "tp": 2, "pp": 2, "accumulation": 4, "clip": 0.1}
    answers = pool.run(engine_run, 8, steps=3, **layout)
    assert min(answers[0]["norm"]) > 0.1
    assert replicas_agree(answers)


def test_the_clip_bug_of_bloom_is_caught(pool):
    """BLOOM-176B clipped on tp rank 0 alone; its layer norms drifted apart over months."""
    layout = {"dp": 2, "tp": 2, "pp": 2, "accumulation": 4, "clip": 0.1}
    assert not replicas_agree(pool.run(engine_run, 8, steps=3, poison="clip_on_tp0_only", **layout))


def test_bf16_follows_fp32_with_float32_master_weights(pool):
    answers = pool.run(engine_run, 4, steps=STEPS, dp=2, pp=2, accumulation=2, compute="bf16")
    losses, expected = answers[0]["loss"], reference()["loss"]
    assert relative(losses[:1], expected[:1]) < 5e-3
    assert relative(losses, expected) < 5e-2
    assert losses != expected
    dtypes = {values.dtype.name for _, _, values in answers[0]["replicas"]}
    assert dtypes == {"float32"}


def test_fp16_trains_with_a_loss_scale(pool):
    answers = pool.run(engine_run, 2, steps=STEPS, dp=2, accumulation=2, compute="fp16")
    assert relative(answers[0]["loss"], reference()["loss"]) < 5e-2
