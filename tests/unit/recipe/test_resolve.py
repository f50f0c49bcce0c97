"""What is worked out, what the checks let pass, and what the notes say."""

import math
from dataclasses import replace

import pytest

from emberward.findings import ConfigError
from emberward.recipe import LayoutConfig, Loaded, Resolved, layouts_for, load_recipe, resolve
from emberward.recipe.presets import PRESETS, bloom_tiny


def resolved(*overrides: str, name: str = "bloom_tiny", num_ranks: int = 8, tokenizer_size: int = 257) -> Resolved:
    return resolve(load_recipe(name, overrides), num_ranks=num_ranks, tokenizer_size=tokenizer_size)


def test_everything_that_can_be_is_worked_out_and_says_from_what():
    done = resolved("layout.dp=null")
    recipe, origins = done.recipe, done.origins
    assert recipe.layout.dp == 2
    assert origins["layout.dp"] == "worked out from 8 ranks / (tp 2 x pp 2)"
    assert (recipe.batch.global_batch, recipe.batch.micro_batch, recipe.batch.accumulation) == (32, 4, 4)
    assert origins["batch.accumulation"] == ("worked out from global_batch 32 = micro_batch 4 x accumulation 4 x dp 2")
    assert recipe.model.ffn_hidden == 512
    assert recipe.model.vocab_size == 384
    assert origins["model.vocab_size"] == "worked out from the tokenizer's 257, padded to a multiple of 128"
    assert recipe.model.init_std == math.sqrt(0.3333 / 128)
    assert recipe.train_samples == 32 * recipe.steps
    assert origins["train_samples"] == f"worked out from steps {recipe.steps}"
    assert recipe.optim.decay_samples == recipe.train_samples
    assert recipe.evaluation.micro_batch == 4
    assert done.batch.explain() == "global_batch 32 = micro_batch 4 x accumulation 4 x dp 2"
    assert (done.num_ranks, done.tokenizer_size) == (8, 257)


def test_bloom_176b_s_standard_deviation_comes_out():
    # bigscience tr11-176B-ml.slurm: --init-method-std 0.0048 with NHIDDEN=14336.
    done = resolved("model.hidden=14336", "model.num_heads=112", num_ranks=8)
    assert f"{done.recipe.model.init_std:.4f}" == "0.0048"


def test_bloom_176b_s_batch_comes_out(tmp_path):
    path = tmp_path / "bloom.yaml"
    path.write_text(
        "train_samples: 220_000_000\n"
        "model: {num_layers: 70, hidden: 14336, num_heads: 112, seq_len: 2048, vocab_size: 250880}\n"
        "layout: {tp: 4, pp: 12}\n"
        "batch: {global_batch: 2048, micro_batch: 2, ramp_up: [192, 16, 9_765_625]}\n"
        "optim: {lr: 6e-5, lr_min: 6e-6, warmup_samples: 183_105, decay_samples: 200_000_000}\n",
        encoding="utf-8",
    )
    done = resolved(name=str(path), num_ranks=384, tokenizer_size=250680)
    assert (done.recipe.layout.dp, done.recipe.batch.accumulation, done.recipe.steps) == (8, 128, 115_311)
    assert done.notes == (
        "12 micro-batches for 12 pipeline ranks: the pipeline idles 48% of a step; 24 or more are better",
        "the last 848 of train_samples 220,000,000 are left out: they do not fill a step",
    )


@pytest.mark.parametrize("name", PRESETS)
def test_resolving_what_was_resolved_changes_nothing(name):
    layout = PRESETS[name]().layout
    num_ranks = 8 if layout.dp is None else layout.dp * layout.tp * layout.pp
    once = resolved(name=name, num_ranks=num_ranks)
    loaded = Loaded(name=name, recipe=once.recipe, origins=once.origins)
    again = resolve(loaded, num_ranks=num_ranks, tokenizer_size=257)
    assert again == once


def test_train_samples_give_the_steps_and_what_is_left_over_is_said():
    done = resolved("steps=null", "train_samples=1000")
    assert (done.recipe.steps, done.recipe.train_samples, done.recipe.optim.decay_samples) == (31, 1000, 992)
    assert done.notes == ("the last 8 of train_samples 1,000 are left out: they do not fill a step",)


def test_steps_and_train_samples_may_both_stand_when_they_agree():
    assert resolved("steps=31", "train_samples=1000").recipe.steps == 31


def test_the_end_of_a_ramped_run_counts_its_small_steps():
    done = resolved("batch.ramp_up=8,8,96", "steps=10")
    # 32 samples an increment: 4 steps of 8, 2 of 16, 2 of 24 (80 of 96 consumed, then 104), then 32.
    assert done.batch.samples_after(10) == done.recipe.train_samples == 4 * 8 + 2 * 16 + 2 * 24 + 2 * 32


@pytest.mark.parametrize(
    "overrides",
    [
        ("layout.tp=1", "layout.dp=4"),
        ("layout.tp=1", "layout.sequence_parallel=true", "model.seq_len=127", "layout.dp=4"),
        ("layout.sequence_parallel=false", "model.seq_len=127"),
        ("schedule=gpipe", "layout.stages_per_rank=2"),
        ("schedule=interleaved", "layout.stages_per_rank=2"),
        ("layout.stage_layers=1,3",),
        ("layout.dp_replicate=2",),
        ("model.vocab_size=258",),
        ("optim.lr_min=3e-3",),
        ("data.held_out=0",),
        ("precision.compute=fp16",),
        ("layout.zero=0",),
        ("layout.zero=3",),
        ("optim.clip=null",),
        ("log.events=0",),
        ("sample_tokens=0",),
        ("batch.global_batch=null", "batch.micro_batch=null", "batch.accumulation=3"),
    ],
)
def test_what_only_looks_wrong_passes(overrides):
    assert resolved(*overrides).num_ranks == 8


def test_an_embedding_as_small_as_the_tokenizer_passes():
    assert resolved("model.vocab_size=258", tokenizer_size=258).recipe.model.vocab_size == 258


def test_a_csv_of_the_right_shape_passes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.csv").write_text("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", encoding="utf-8")
    assert resolved("schedule=mine.csv", "batch.global_batch=16").batch.accumulation == 2


def test_an_idle_pipeline_is_noted():
    assert resolved("batch.global_batch=8").notes == (
        "1 micro-batch for 2 pipeline ranks: the pipeline idles 50% of a step; 4 or more are better",
    )
    assert resolved().notes == ()


def test_a_run_that_ends_in_its_warm_up_is_noted():
    assert resolved("steps=5").notes == (
        "the learning rate only rises: optim.warmup_samples 320 are not below optim.decay_samples 160",
    )


def test_nothing_to_evaluate_on_is_noted():
    assert resolved("data.held_out=0").notes == (
        "nothing to evaluate on: data.held_out is 0 and evaluation.sets is empty",
    )
    assert resolved("data.held_out=0", "evaluation.sets=my.txt").notes == ()


def test_the_layouts_of_a_small_machine_are_found():
    def sizes(num_ranks: int) -> list[tuple[int | None, int, int]]:
        return [(each.dp, each.tp, each.pp) for each in layouts_for(bloom_tiny(), num_ranks)]

    assert sizes(8)[0] == (2, 2, 2)
    assert sizes(4)[0] == (2, 1, 2)
    assert sizes(2)[0] == (2, 1, 1)
    assert sizes(1) == [(1, 1, 1)]
    # 32 samples a step in micro-batches of 4 cannot be dealt to 7, and 7 divides neither heads nor layers.
    assert sizes(7) == []


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4, 6, 8, 12, 16, 48, 64])
def test_every_layout_that_is_offered_resolves(num_ranks):
    loaded = load_recipe("bloom_tiny")
    for layout in layouts_for(loaded.recipe, num_ranks, most=100):
        fitted = Loaded(name="x", recipe=replace(loaded.recipe, layout=layout), origins=loaded.origins)
        found = resolve(fitted, num_ranks=num_ranks, tokenizer_size=257).recipe.layout
        assert replace(found, sequence_parallel=None) == layout


def test_a_layout_for_thousands_of_ranks_is_found_quickly():
    assert layouts_for(bloom_tiny(), 16384, most=1) == ()
    big = replace(bloom_tiny(), batch=replace(bloom_tiny().batch, global_batch=65536))
    found = layouts_for(big, 16384, most=1)[0]
    assert found == LayoutConfig(dp=4096, tp=2, pp=2)


def test_zero_ranks_are_out_of_range():
    with pytest.raises(ConfigError) as caught:
        resolved(num_ranks=0)
    assert caught.value.text() == (
        "C103 the number of ranks is out of range\n  where     --ranks\n  expected  at least 1\n  found     0"
    )
