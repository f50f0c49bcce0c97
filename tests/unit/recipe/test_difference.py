"""Which differences between two recipes change the curve of the training."""

import pytest

from emberward.recipe import Difference, Recipe, differences, load_recipe, resolve


def resolved(*overrides: str) -> Recipe:
    return resolve(load_recipe("bloom_tiny", overrides), num_ranks=8, tokenizer_size=257).recipe


def found(a: Recipe, b: Recipe) -> dict[str, bool]:
    return {each.key: each.harmless for each in differences(a, b)}


def test_equal_recipes_do_not_differ():
    assert differences(resolved(), resolved()) == ()


@pytest.mark.parametrize(
    "override",
    [
        "name=other", "log.interval=10", "log.tensorboard=true", "save.interval=7", "save.keep=null", "timeout_s=5",
        "sample_prompt=x", "sample_tokens=0", "evaluation.interval=3", "evaluation.sets=a.txt", "data.cache=x",
        "data.prefetch=9", "model.recompute=true", "precision.loss_scale=2", "precision.loss_scale_window=2",
        "data.train=[{path: stdlib, name: other}]",
    ],
)  # fmt: skip
def test_what_leaves_the_curve_alone_is_harmless(override):
    assert found(resolved(), resolved(override)) == {override.partition("=")[0]: True}


@pytest.mark.parametrize(
    "override",
    [
        "seed=1", "schedule=gpipe", "device=cpu", "optim.lr=1e-3", "optim.clip=null", "optim.warmup_samples=0",
        "model.num_layers=6", "model.seq_len=64", "data.held_out=0.1", "data.train=other.txt", "data.tokenizer=t.json",
        "layout.zero=3", "layout.sequence_parallel=false", "precision.compute=bf16", "layout.dp_replicate=2",
        "data.train=[{path: stdlib, weight: 2}]", "optim.decay_samples=100000", "model.layer_norm_eps=1e-6",
    ],
)  # fmt: skip
def test_what_changes_the_curve_is_not(override):
    assert found(resolved(), resolved(override))[override.partition("=")[0]] is False


def test_a_longer_run_with_the_same_decay_is_the_same_run():
    decay = "optim.decay_samples=5000"
    assert found(resolved(decay), resolved(decay, "steps=300")) == {"steps": True, "train_samples": True}


def test_a_longer_run_whose_decay_moves_with_its_end_is_not():
    assert found(resolved(), resolved("steps=300")) == {
        "steps": True,
        "train_samples": True,
        "optim.decay_samples": False,
    }
    before, after = load_recipe("bloom_tiny").recipe, load_recipe("bloom_tiny", ["steps=300"]).recipe
    assert found(before, after) == {"steps": False}


def test_loss_scales_matter_with_fp16():
    fp16 = "precision.compute=fp16"
    assert found(resolved(fp16), resolved(fp16, "precision.loss_scale=2")) == {"precision.loss_scale": False}


def test_a_ramp_up_that_came_or_went_is_told_with_its_numbers():
    changes = differences(
        resolved(), resolved("batch.ramp_up=8,8,96", "optim.decay_samples=4800", "train_samples=null")
    )
    ramp = [each for each in changes if each.key.startswith("batch.ramp_up")]
    assert Difference(key="batch.ramp_up.start", a=None, b=8, harmless=False) in ramp
    assert not any(each.harmless for each in ramp)
    assert {each.key for each in ramp} >= {"batch.ramp_up.start", "batch.ramp_up.increment", "batch.ramp_up.samples"}


def test_both_values_are_told():
    assert differences(resolved(), resolved("seed=7")) == (Difference(key="seed", a=1234, b=7, harmless=False),)
