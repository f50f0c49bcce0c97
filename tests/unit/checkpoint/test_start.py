"""What a new run may start from is looked at before any rank starts, and what does not fit is named."""

import pytest
import torch
from unit.cli.door import emberward

from emberward import checkpoint
from emberward.checkpoint import Shard, alone, find_start, require_start
from emberward.data import open_tokenizer
from emberward.families import model_of
from emberward.findings import ConfigError
from emberward.recipe import load_recipe, resolve

SHAPES = {"embed.weight": (8, 4), "final_norm.weight": (4,)}


def make_save(folder, *, moments=True, dtype=torch.float32, shapes=SHAPES):
    kinds = ("model", "optim/exp_avg", "optim/exp_avg_sq") if moments else ("model",)
    shards = [
        Shard(
            name=f"{kind}/{name}",
            global_shape=shape,
            box=tuple((0, n) for n in shape),
            tensor=torch.ones(shape, dtype=dtype),
        )
        for kind in kinds
        for name, shape in shapes.items()
    ]
    checkpoint.save(folder / "checkpoints", step=3, shards=shards, meta={}, rank=0, world_size=1, agree=alone)
    return folder / "checkpoints" / "step-00000003"


def test_a_save_that_fits_is_found_in_any_of_its_places(tmp_path):
    save = make_save(tmp_path)
    for place in (tmp_path, tmp_path / "checkpoints", save):
        assert require_start(place, SHAPES, with_moments=True) == save


def said(place, shapes=SHAPES, *, with_moments=False):
    with pytest.raises(ConfigError) as caught:
        require_start(place, shapes, with_moments=with_moments)
    return caught.value.text()


def test_what_does_not_fit_is_named_before_a_rank_starts(tmp_path):
    save = make_save(tmp_path, moments=False)
    assert said(tmp_path, {"embed.weight": (16, 4), "embed.bias": (4,), "final_norm.weight": (4,)}) == (
        "K121 tensor model/embed.weight does not fit the model; nor do model/embed.bias\n"
        f"  where     start.checkpoint={save}\n"
        "  expected  shape (16, 4)\n"
        "  found     shape (8, 4)\n"
        f"  next      set the recipe's model.* to the checkpoint's sizes      emberward checkpoint show {save}"
    )
    assert "did you mean model/embed.weight?" in said(tmp_path, {"embed.weigth": (8, 4)})
    assert said(tmp_path, with_moments=True).splitlines()[-1] == (
        "  next      start.take=weights      (the save has no such moments)"
    )


def test_half_precision_is_not_taken_for_full(tmp_path):
    save = make_save(tmp_path, dtype=torch.bfloat16)
    assert "found     BF16" in said(tmp_path)
    again = checkpoint.reshape(save, tmp_path / "f32", num_ranks=1, dtype=checkpoint.DType.F32).written.path
    assert require_start(tmp_path / "f32", SHAPES, with_moments=True) == again


def test_a_folder_of_another_program_is_imported_first(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(ConfigError) as caught:
        find_start(tmp_path)
    assert caught.value.code == "K121" and f"emberward checkpoint import {tmp_path} saves" in caught.value.text()
    with pytest.raises(ConfigError, match="K121 there is no save to start from"):
        find_start(tmp_path / "nowhere")


SMALL = (
    "model.num_layers=1",
    "model.hidden=16",
    "model.num_heads=2",
    "model.seq_len=16",
    "batch.global_batch=4",
    "layout.dp=1",
    "layout.tp=1",
    "layout.pp=1",
)


def test_the_command_looks_at_it_before_anything_starts(tmp_path):
    """A save of the recipe's own shapes is said; one that is not there, or of another width, ends with exit code 2."""
    tokenizer = open_tokenizer("byte")
    recipe = resolve(load_recipe("bloom_tiny", SMALL), num_ranks=1, tokenizer_size=tokenizer.size).recipe
    save = make_save(tmp_path, moments=False, shapes=model_of(recipe.model).shapes)
    (tmp_path / "text.txt").write_text("words to train on, a few\n" * 200)
    given = (*SMALL, "data.train=text.txt", "data.cache=cache", f"start.checkpoint={tmp_path}")
    words = ("train", "bloom_tiny", *given, "--ranks", "1", "--dry", "--no-check")
    said = emberward(*words, cwd=tmp_path)
    assert (said.code, said.out.splitlines()[-1]) == (
        0,
        f"starts from {save}: weights alone, no moments; step, data and learning rate begin anew",
    ), said.err
    said = emberward(*words, "model.hidden=32", "--json", cwd=tmp_path)
    assert (said.code, said.document["findings"][0]["code"]) == (2, "K121")
    assert not (tmp_path / "runs").exists()
