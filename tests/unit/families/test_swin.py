"""Swin against transformers' own: files, logits, loss and gradients at random sizes, and sizes that are impossible."""

import json
import random
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from emberward.draws import Draws
from emberward.engine import StageModule
from emberward.engine._shard import materialise
from emberward.families import ModelConfig, find_family, model_of
from emberward.families.dropout import device_lanes, drop, drop_samples
from emberward.families.swin import modules
from emberward.layout import Cut
from emberward.recipe import layers_of_stages, load_recipe

SWIN = find_family("swin")
SWIN_T = ModelConfig(family="swin", hidden=96, init_std=0.02)
SWIN_B = ModelConfig(family="swin", hidden=128, depths=(2, 2, 18, 2), stage_heads=(4, 8, 16, 32), init_std=0.02)


def random_config(seed: int) -> ModelConfig:
    """Sizes that fit, with padded images, padded windows, odd sides and windows as large as a stage among them."""
    draw = random.Random(seed)
    while True:
        num_stages = draw.randint(1, 3)
        heads = tuple(draw.choice((1, 2, 3)) * 2**stage for stage in range(num_stages))
        config = ModelConfig(
            family="swin",
            hidden=12 * draw.randint(1, 3),
            depths=tuple(draw.randint(1, 3) for _ in range(num_stages)),
            stage_heads=heads,
            window=draw.randint(2, 5),
            mlp_ratio=draw.choice((2.0, 4.0)),
            image_size=draw.randint(9, 33),
            patch_size=draw.randint(1, 3),
            num_channels=draw.choice((1, 3)),
            num_classes=draw.randint(2, 11),
            init_std=0.02,
            layer_norm_eps=draw.choice((1e-5, 1e-4)),
        )
        if not list(SWIN.misfits(config, tp=1)):
            return config


def theirs_of(config: ModelConfig, seed: int):
    """transformers' model with random weights."""
    transformers = pytest.importorskip("transformers")
    fields = SWIN.hf_config(config, eod=None)
    fields = {
        name: fields[name]
        for name in fields
        if name not in ("architectures", "model_type", "torch_dtype", "num_labels")
    }
    own = transformers.SwinConfig(**fields, attn_implementation="eager")
    torch.manual_seed(seed)
    model = transformers.SwinForImageClassification(own).eval()
    with torch.no_grad():
        for name, param in model.named_parameters():
            is_scale = "norm" in name and name.endswith("weight")
            param.copy_(torch.randn_like(param) * 0.1 + (1 if is_scale else 0))
    return model


def ours_of(config: ModelConfig, tensors) -> StageModule:
    """The whole model with these tensors, by name."""
    whole = StageModule(config, range(len(model_of(config).blocks)), None)
    materialise(whole, torch.device("cpu"))
    with torch.no_grad():
        for spec, param in whole.named_tensors():
            param.copy_(tensors[spec.name])
    return whole


@pytest.mark.parametrize("seed", range(6))
def test_logits_loss_and_gradients_are_transformers(tmp_path, seed):
    config = random_config(seed)
    theirs = theirs_of(config, seed)
    theirs.save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    assert {name: tuple(tensor.shape) for name, tensor in tensors.items()} == model_of(config).shapes
    ours = ours_of(config, tensors)
    images = torch.randn(3, config.num_channels, config.image_size, config.image_size)
    labels = torch.randint(0, config.num_classes, (3,))
    expected = theirs(images, labels=labels)
    logits = ours(images, None)
    assert (logits - expected.logits).abs().max() <= 2e-6 * expected.logits.abs().max()
    loss_sum, weight = modules.loss(
        logits, torch.nn.functional.one_hot(labels, config.num_classes).float(), torch.ones(3), None
    )
    assert (loss_sum / weight - expected.loss).abs() <= 1e-6 * expected.loss
    (loss_sum / weight).backward()
    expected.loss.backward()
    mine = [param.grad for spec, param in ours.named_tensors() if "bias_table" in spec.name]
    others = [param.grad for name, param in theirs.named_parameters() if "bias_table" in name]
    assert len(mine) == len(others) == sum(config.depths)
    assert all((a - b).norm() <= 1e-5 * b.norm() for a, b in zip(mine, others, strict=True))
    total = sum(float((param.grad**2).sum()) for _, param in ours.named_tensors())
    assert total == pytest.approx(sum(float((param.grad**2).sum()) for param in theirs.parameters()), rel=1e-5)


def test_our_tensors_load_into_transformers_under_their_names(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = random_config(9)
    torch.manual_seed(9)
    tensors = {name: torch.randn(shape) for name, shape in model_of(config).shapes.items()}
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    (tmp_path / "config.json").write_text(json.dumps(SWIN.hf_config(config, eod=None)))
    loaded = transformers.SwinForImageClassification.from_pretrained(tmp_path)
    loaded.save_pretrained(tmp_path / "again")
    again = load_file(tmp_path / "again/model.safetensors")
    assert again.keys() == tensors.keys()
    assert all(torch.equal(again[name], tensors[name]) for name in tensors)


@pytest.mark.parametrize(("config", "count"), [(SWIN_T, 28_288_354), (SWIN_B, 87_768_224)])
def test_the_published_models_have_as_many_parameters_as_transformers(config, count):
    assert model_of(config).num_parameters == count


@pytest.mark.parametrize(("config", "macs"), [(SWIN_T, 4.49e9), (SWIN_B, 15.43e9)])
def test_operations_are_those_of_the_paper(config, macs):
    assert model_of(config).blocks and sum(block.flops for block in model_of(config).blocks) / 2 == pytest.approx(
        macs, rel=0.01
    )


def test_three_heads_are_cut_two_to_one_and_the_parts_make_the_whole():
    for spec in model_of(SWIN_T).tensors.values():
        boxes = [spec.box(2, rank) for rank in range(2)]
        if isinstance(spec.over_tp, Cut):
            dim = spec.over_tp.dim
            assert boxes[0][dim][1] == boxes[1][dim][0] and boxes[1][dim][1] == spec.shape[dim]
    query = model_of(SWIN_T).tensors["swin.encoder.layers.0.blocks.0.attention.self.query.weight"]
    assert [query.local_shape(2, rank) for rank in range(2)] == [(64, 96), (32, 96)]


def test_edges_differ_in_tokens_and_width_and_stages_are_cut_by_cost():
    shapes = [block.output.shape for block in model_of(SWIN_T).blocks]
    assert shapes == [
        (3136, 96), (3136, 96), (784, 192), (784, 192), (196, 384),
        *[(196, 384)] * 5, (49, 768), (49, 768), (49, 768), (1000,),
    ]  # fmt: skip
    recipe = replace(load_recipe("swin_tiny", []).recipe, model=SWIN_T)
    assert [len(layers) for layers in layers_of_stages(recipe)] == [6, 6]


NO_WINDOW = (
    "the windows do not fit the last stages: model.window at most 7: the stages have 56 / 28 / 14 / 7 rows of tokens"
)
NO_HEADS = "each stage needs its number of heads: model.stage_heads with 4 numbers, as model.depths"
NO_WIDTH = "the heads of stage 0 do not divide its width: a divisor of 96 = model.hidden x 2^0 in place of 5"
NO_TP = (
    "tensor parallel cannot split the model: layout.tp that leaves each rank one of the 3 heads of stage 0 and divides "
    "its feed-forward width 384"
)


@pytest.mark.parametrize(
    ("change", "tp", "message"),
    [
        ({"window": 8}, 1, NO_WINDOW),
        ({"stage_heads": (3, 6, 12)}, 1, NO_HEADS),
        ({"stage_heads": (5, 6, 12, 24)}, 1, NO_WIDTH),
        ({}, 4, NO_TP),
        ({}, 3, None),
        ({}, 2, None),
    ],
)
def test_sizes_that_do_not_fit_are_refused_and_their_look_alikes_are_not(change, tp, message):
    config = replace(SWIN_T, **change)
    found = [f"{misfit.what}: {misfit.expected}" for misfit in SWIN.misfits(config, tp=tp)]
    assert found[:1] == ([] if message is None else [message])


DRAWS = Draws(seed=3, step=1, samples=(4, 9, 2))


def test_dropout_of_a_part_is_that_part_of_the_whole_and_keeps_the_mean():
    x = torch.ones(3, 40, 50)
    whole = drop(x, DRAWS, (1, "output"), 0.25)
    part = drop(x[:, 10:30], DRAWS, (1, "output"), 0.25, first=10 * 50)
    assert torch.equal(part, whole[:, 10:30])
    assert abs(float(whole.mean()) - 1) < 0.04 and whole.unique().tolist() == pytest.approx([0.0, 4 / 3])
    assert drop(x, None, (1, "output"), 0.25) is x and drop(x, DRAWS, (1, "output"), 0.0) is x


def test_drop_path_leaves_out_whole_samples():
    kept = [drop_samples(torch.ones(3, 5), DRAWS, (layer, "drop path"), 0.5) for layer in range(400)]
    stacked = torch.stack(kept)
    assert set(stacked.unique().tolist()) == {0.0, 2.0} and bool((stacked.amax(-1) == stacked.amin(-1)).all())
    assert abs(float(stacked.mean()) - 1) < 0.1


def test_a_device_draws_what_the_processor_draws():
    for num, first in ((1, 0), (37, 5), (64, 3)):
        found = device_lanes(DRAWS, (2, "x"), num, first, torch.device("cpu"))
        assert found.tolist() == DRAWS.lanes((2, "x"), num, first=first).tolist()


def test_a_forward_that_is_computed_again_draws_the_same():
    config = replace(random_config(2), drop_path=0.3, dropout=0.1, attention_dropout=0.1)
    torch.manual_seed(0)
    tensors = {name: torch.randn(shape) * 0.1 for name, shape in model_of(config).shapes.items()}
    images = torch.randn(3, config.num_channels, config.image_size, config.image_size)
    grads = []
    for recompute in (False, True):
        whole = ours_of(replace(config, recompute=recompute), tensors)
        torch.rand(7)  # a generator of the process must not matter
        whole(images, DRAWS).square().sum().backward()
        grads.append([param.grad for _, param in whole.named_tensors()])
    assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))
