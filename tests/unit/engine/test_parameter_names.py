"""What a family declares is what its modules hold, part by part; and what disagrees is an error by name."""

import dataclasses

import pytest
import torch

from emberward.engine import StageModule
from emberward.engine import _stage as stage_file
from emberward.families import LlamaConfig, ModelConfig, RobertaConfig, model_of
from emberward.families.layers import TensorAxis
from emberward.findings import ConfigError

CONFIG = ModelConfig(num_layers=3, hidden=24, num_heads=4, ffn_hidden=80, vocab_size=48, seq_len=16, init_std=0.1)


def axis(size: int, rank: int) -> TensorAxis:
    """A tp axis whose group is never called."""
    return TensorAxis(group=None, size=size, group_rank=rank, sequence_parallel=True)


def whole(config: ModelConfig, tp: TensorAxis | None = None) -> StageModule:
    return StageModule(config, range(len(model_of(config).blocks)), tp)


ROBERTA = dataclasses.replace(CONFIG, family="roberta", roberta=RobertaConfig(mask_id=5, num_positions=40))
LLAMA = dataclasses.replace(CONFIG, family="llama", llama=LlamaConfig(num_kv_heads=2))
WIDE = dataclasses.replace(CONFIG, family="llama", llama=LlamaConfig(num_kv_heads=2, head_size=20))


@pytest.mark.parametrize("config", [CONFIG, LLAMA, WIDE, ROBERTA], ids=["bloom", "llama", "wide heads", "roberta"])
@pytest.mark.parametrize("tp", [None, axis(2, 1), axis(4, 0)], ids=["one rank", "tp 2", "tp 4"])
def test_declared_parts_are_the_modules_parameters(tp, config):
    stage = whole(config, tp)
    model = model_of(config)
    size, rank = (1, 0) if tp is None else (tp.size, tp.group_rank)
    found = {spec.stored_name: tuple(param.shape) for spec, param in stage.named_tensors()}
    assert found == {name: spec.local_shape(size, rank) for name, spec in model.tensors.items()}
    assert model.num_parameters == sum(spec.numel for spec in model.tensors.values())
    assert all(param.device == torch.device("meta") for _, param in stage.named_tensors())


def broken(monkeypatch, change) -> ConfigError:
    """What is said of the model after `change` of layer 1's tensors."""
    model = model_of(CONFIG)
    blocks = list(model.blocks)
    blocks[2] = dataclasses.replace(blocks[2], tensors=tuple(change(blocks[2].tensors)))
    monkeypatch.setattr(stage_file, "model_of", lambda config: dataclasses.replace(model, blocks=tuple(blocks)))
    with pytest.raises(ConfigError) as caught:
        whole(CONFIG, axis(2, 0))
    assert caught.value.code == "C116"
    return caught.value


def test_a_parameter_without_a_declaration_is_an_error_by_name(monkeypatch):
    error = broken(monkeypatch, lambda tensors: tensors[:-1])
    assert error.what == "blocks.1.mlp.down.bias of block layer 1 is not what the model declares"
    assert error.expected == "no such parameter (declared)"
    assert error.found == "a part of shape (24,) over tp 2 (in the module)"


def test_a_declaration_without_a_parameter_is_an_error_by_name(monkeypatch):
    error = broken(monkeypatch, lambda tensors: (*tensors, dataclasses.replace(tensors[0], name="blocks.1.extra")))
    assert error.what.startswith("blocks.1.extra of block layer 1 ")
    assert error.found == "no such parameter (in the module)"


def test_another_placement_than_the_module_s_is_an_error_by_name(monkeypatch):
    def rows_as_columns(tensors):
        by_name = {tensor.name: tensor for tensor in tensors}
        up = by_name["blocks.1.mlp.up.weight"]
        down = dataclasses.replace(by_name["blocks.1.mlp.down.weight"], over_tp=up.over_tp)
        return ({**by_name, down.name: down}).values()

    error = broken(monkeypatch, rows_as_columns)
    assert error.what.startswith("blocks.1.mlp.down.weight of block layer 1 ")
    assert (error.expected, error.found) == (
        "a part of shape (12, 80) over tp 2 (declared)",
        "a part of shape (24, 40) over tp 2 (in the module)",
    )


def test_the_same_declaration_twice_is_refused():
    model = model_of(CONFIG)
    with pytest.raises(ValueError, match=r"blocks\.0\.attention_norm\.weight is declared twice"):
        dataclasses.replace(model, blocks=(model.first, model.layers[0], model.layers[0], model.last))
