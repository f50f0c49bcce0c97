"""The page that adds a family is followed to the letter: its code blocks become files, and the family trains."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from house.tree import ROOT
from safetensors.torch import load_file
from unit.cli.test_export_run import exported, run_of
from unit.engine.test_activations import ALLOWED

from emberward.engine import StageModule
from emberward.engine._shard import materialise
from emberward.families import ModelConfig, find_family, model_of
from emberward.families.layers import TensorAxis, token_loss
from emberward.findings import ConfigError
from emberward.recipe import load_recipe, resolve

PAGE = ROOT / "docs" / "add_a_family.md"
WORDS = ("model.family=toy_describe:FAMILY", "model.ffn_hidden=256")


def write_family(folder: Path) -> tuple[str, ...]:
    """Writes the page's two files into `folder`; the names of their modules."""
    files = re.findall(r"```python (\w+)\.py\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    for name, code in files:
        (folder / f"{name}.py").write_text(code, encoding="utf-8")
    return tuple(name for name, _ in files)


@pytest.fixture
def toy(tmp_path, monkeypatch) -> ModelConfig:
    """The resolved model of the page's family, whose files lie on the path."""
    names = write_family(tmp_path)
    assert names == ("toy_describe", "toy_modules")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield resolve(load_recipe("bloom_tiny", WORDS), num_ranks=8, tokenizer_size=257).recipe.model
    for name in names:
        sys.modules.pop(name, None)
    find_family.cache_clear()
    model_of.cache_clear()


def whole(config: ModelConfig, axis: TensorAxis | None = None) -> StageModule:
    return StageModule(config, range(len(model_of(config).blocks)), axis)


def test_its_parts_are_as_declared_on_one_rank_and_over_tp(toy):
    assert model_of(toy).num_parameters == sum(param.numel() for _, param in whole(toy).named_tensors())
    for rank in range(2):
        whole(toy, TensorAxis(group=None, size=2, group_rank=rank, sequence_parallel=True))


def test_it_learns(toy):
    stage = whole(toy)
    materialise(stage, torch.device("cpu"))
    torch.manual_seed(0)
    for param in stage.parameters():
        torch.nn.init.normal_(param, std=0.1)
    tokens = torch.randint(0, 16, (4, toy.seq_len))
    adamw = torch.optim.AdamW(stage.parameters(), lr=1e-2)
    losses = []
    for _ in range(10):
        loss, count = token_loss(stage(tokens), (tokens + 1) % 16, torch.ones(tokens.shape), None)
        adamw.zero_grad()
        (loss / count).backward()
        adamw.step()
        losses.append((loss / count).item())
    assert losses[-1] < losses[0] / 2


def test_a_layer_keeps_what_it_declares_as_the_page_compares_it(toy):
    (code,) = (block for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "kept_by" in block)
    rows: list[tuple[str, int, int]] = []
    exec(code, {"config": toy, "print": lambda *words: rows.append(words)})
    assert [name for name, _, _ in rows] == [block.name for block in model_of(toy).layers]
    for _, declared, kept in rows:
        assert declared == pytest.approx(kept, rel=ALLOWED)


def test_a_key_that_it_does_not_read_and_a_family_that_is_not_there_are_refused(toy):
    with pytest.raises(ConfigError) as caught:
        resolve(load_recipe("bloom_tiny", (*WORDS, "model.init_std=0.5")), num_ranks=8, tokenizer_size=257)
    assert (caught.value.code, caught.value.next) == ("C103", "leave model.init_std out")
    assert caught.value.expected == "a key of family toy: ffn_hidden, hidden, num_layers, seq_len, vocab_size"
    for name, expected in (("lama", "did you mean llama?"), ("no_such_module:FAMILY", "ModuleNotFoundError: ")):
        with pytest.raises(ConfigError) as caught:
            resolve(load_recipe("bloom_tiny", (f"model.family={name}",)), num_ranks=8, tokenizer_size=257)
        assert caught.value.code == "C103" and caught.value.next.startswith(expected)


def test_a_run_of_it_is_exported_as_weights_alone(toy, tmp_path):
    run = run_of(tmp_path, "toy", "bloom_tiny", *WORDS, "layout.pp=1")
    said = exported(str(run.path), str(tmp_path / "exported"))
    assert said.exit_code == 0, said.stderr
    assert "no config.json was written" in said.stdout
    weights = load_file(tmp_path / "exported" / "model.safetensors")
    assert {name: tuple(each.shape) for name, each in weights.items()} == model_of(toy).shapes
    assert not (tmp_path / "exported" / "config.json").exists()


BROKEN = """
from toy_describe import Toy

class Failing(Toy):
    def misfits(self, config, *, tp):
        yield config.hiden

class Elsewhere(Toy):
    modules = "toy_parts"

CLASS, FAILS, ELSEWHERE = Toy, Failing(), Elsewhere()
"""


def test_a_family_that_is_none_or_fails_is_refused_with_what_it_lacks_or_its_line(toy, tmp_path, monkeypatch):
    (tmp_path / "broken.py").write_text(BROKEN)
    refused = {
        "os:path": ("C103", "os:path", "a value with name, keys, modules"),
        "broken:CLASS": ("C103", "broken:CLASS", "a value, as CLASS()"),
        "broken:FAILS": ("C116", f"{tmp_path}/broken.py:6", None),
    }
    for name, (code, where, expected) in refused.items():
        with pytest.raises(ConfigError) as caught:
            resolve(load_recipe("bloom_tiny", (f"model.family={name}",)), num_ranks=8, tokenizer_size=257)
        assert (caught.value.code, caught.value.where) == (code, where)
        assert (caught.value.expected or "").startswith(expected or "")
    assert caught.value.found == "AttributeError: 'ModelConfig' object has no attribute 'hiden'"
    with pytest.raises(ConfigError, match="the family's modules are not found") as caught:
        whole(replace(toy, family="broken:ELSEWHERE"))
    assert (caught.value.code, caught.value.found) == ("C116", "toy_parts")
    monkeypatch.delitem(sys.modules, "broken")
