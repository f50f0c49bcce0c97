"""A run's save becomes a folder from which transformers generates: weights, configuration and tokenizer."""

import contextlib
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from emberward import checkpoint
from emberward.checkpoint import Shard, alone
from emberward.cli import app_of
from emberward.families import model_of
from emberward.recipe import load_recipe, resolve, write_resolved
from emberward.report import RunFolder

transformers = pytest.importorskip("transformers")
WORDS = ("model.num_layers=1", "model.hidden=32", "model.num_heads=2", "model.seq_len=64", 'sample_prompt=an é "q" \\')


@pytest.fixture
def run(tmp_path) -> RunFolder:
    """A run of a model of one layer, with one save: weights and moments."""
    return run_of(tmp_path, "tiny", "bloom_tiny", *WORDS, "layout.pp=1")


def run_of(tmp_path: Path, name: str, preset: str, *words: str) -> RunFolder:
    folder = RunFolder(path=tmp_path / "runs" / name / "1")
    folder.checkpoints.mkdir(parents=True)
    resolved = resolve(load_recipe(preset, list(words)), num_ranks=4, tokenizer_size=257)
    write_resolved(resolved, folder.config)
    generator = torch.Generator().manual_seed(0)
    shards = [
        Shard(name=f"{kind}/{name}", global_shape=shape, box=tuple((0, n) for n in shape), tensor=tensor)
        for kind in ("model", "optim/exp_avg", "optim/exp_avg_sq")
        for name, shape in model_of(resolved.recipe.model).shapes.items()
        if (tensor := 0.1 * torch.randn(shape, generator=generator)) is not None
    ]
    checkpoint.save(folder.checkpoints, step=3, shards=shards, meta={}, rank=0, world_size=1, agree=alone)
    return folder


def exported(*words: str):
    return CliRunner().invoke(app_of("checkpoint"), ["checkpoint", "export", *words])


def test_the_printed_program_generates_with_the_runs_tokenizer(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = exported("tiny", "out folder")
    assert said.exit_code == 0, said.stderr
    first, *program = said.stdout.splitlines()
    assert first.startswith("wrote out folder (huggingface): 17 tensors, ")
    assert program[0].startswith("from transformers import ")
    printed = io.StringIO()
    torch.manual_seed(0)
    with contextlib.redirect_stdout(printed):
        exec("\n".join(program), {})
    assert printed.getvalue().startswith('an é "q" \\')
    config = json.loads(Path("out folder/tokenizer_config.json").read_text())
    assert config["tokenizer_class"] == "PreTrainedTokenizerFast"
    tokenizer = transformers.AutoTokenizer.from_pretrained("out folder")
    assert tokenizer("a b")["input_ids"] == list(b"a b")


def test_the_numbers_that_are_written_are_those_in_the_file(run, tmp_path):
    document = json.loads(exported(str(run.path), str(tmp_path / "out"), "--json").stdout)
    from safetensors import safe_open

    with safe_open(tmp_path / "out" / "model.safetensors", "pt") as file:
        assert document["num_tensors"] == len(list(file.keys()))
    manifest = checkpoint.read_manifest(run.checkpoints / "step-00000003")
    assert len(manifest.tensors) == 3 * document["num_tensors"]


def test_a_tokenizer_that_changed_since_the_training_is_refused(run, tmp_path, monkeypatch):
    tokenizers = pytest.importorskip("tokenizers")
    text = tmp_path / "text.txt"
    text.write_text("some text to learn from\n" * 400)
    path = tmp_path / "tokenizer.json"
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<|endoftext|>": 0, "some": 1, "<unk>": 2}, "<unk>"))
    made.save(str(path))
    from emberward.recipe import read_resolved
    from emberward.report import write_json
    from emberward.runs import prepare_data

    resolved = read_resolved(run.config)
    data = replace(
        resolved.recipe.data, tokenizer=str(path), train=(replace(resolved.recipe.data.train[0], path=str(text)),)
    )
    monkeypatch.chdir(tmp_path)
    recipe = replace(resolved.recipe, data=data)
    manifest = prepare_data(recipe, progress=None)
    write_resolved(replace(resolved, recipe=recipe), run.config)
    write_json(run.data, {"manifest": str(manifest.path)})
    assert exported(str(run.path), str(tmp_path / "same")).exit_code == 0
    made.add_tokens(["more"])
    made.save(str(path))
    said = exported(str(run.path), str(tmp_path / "other"))
    assert said.exit_code == 2
    assert said.stderr.startswith("D102 the tokenizer is not the one that the run was trained with\n")
    assert not (tmp_path / "other").exists()


def test_a_swin_is_exported_under_transformers_names_bit_for_bit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = run_of(tmp_path, "digits", "swin_tiny", "layout.pp=1", "model.depths=1,2", "model.stage_heads=3,6")
    said = exported("digits", "out")
    assert said.exit_code == 0, said.stderr
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec("\n".join(said.stdout.splitlines()[1:]), {})
    assert printed.getvalue().startswith("tensor([[")
    loaded = transformers.AutoModelForImageClassification.from_pretrained("out")
    loaded.save_pretrained("again")
    again = load_file("again/model.safetensors")
    save = checkpoint.latest(folder.checkpoints)
    shards = [
        Shard(name=f"model/{name}", global_shape=shape, box=tuple((0, n) for n in shape), tensor=torch.empty(shape))
        for name, shape in ((name, tuple(tensor.shape)) for name, tensor in again.items())
    ]
    checkpoint.load(save, shards)
    assert all(torch.equal(shard.tensor, again[shard.name.removeprefix("model/")]) for shard in shards)


def test_the_printed_program_of_a_roberta_names_a_hidden_token(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_of(tmp_path, "names", "roberta_tiny", *WORDS, "layout.pp=1")
    said = exported("names", "out")
    assert said.exit_code == 0, said.stderr
    program = said.stdout.splitlines()[1:]
    assert any("[0, -1] = 257" in line for line in program), "the mask is the first id behind the tokenizer's"
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec("\n".join(program), {})
    assert printed.getvalue().endswith("\n")
    config = transformers.AutoConfig.from_pretrained("out")
    assert (config.pad_token_id, config.mask_token_id, config.max_position_embeddings) == (1, 257, 66)
