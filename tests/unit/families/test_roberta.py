"""RoBERTa against transformers' own: files, logits, loss, gradients at random sizes, and sizes that are impossible."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from emberward import checkpoint
from emberward.checkpoint import Foreign, Form, Shard, alone
from emberward.draws import Draws
from emberward.engine import StageModule
from emberward.engine._shard import materialise
from emberward.families import ModelConfig, RobertaConfig, find_family, model_of
from emberward.families.roberta import modules
from emberward.families.roberta.modules import positions_of
from emberward.findings import EmberwardError
from emberward.recipe.presets import roberta_10b

ROBERTA = find_family("roberta")
TABLE = "roberta.embeddings.word_embeddings.weight"
TOLERANCE = 2e-6
"""Greatest difference over the greatest logit, in float32."""
BASE = ModelConfig(
    family="roberta", num_layers=12, hidden=768, num_heads=12, ffn_hidden=3072, vocab_size=50265, seq_len=512,
    init_std=0.02, roberta=RobertaConfig(mask_id=50264, num_positions=514),
)  # fmt: skip


def random_config(seed: int) -> ModelConfig:
    """A small model, drawn by the seed: heads, widths, positions, token types, which id is padding."""
    draw = random.Random(seed)
    heads = draw.randint(1, 4)
    pad, length = draw.randint(0, 3), draw.randint(5, 19)
    return ModelConfig(
        family="roberta",
        num_layers=draw.randint(1, 3),
        hidden=heads * draw.choice((4, 10, 16)),
        num_heads=heads,
        ffn_hidden=draw.choice((24, 48, 100)),
        vocab_size=draw.randint(30, 90),
        seq_len=length,
        init_std=0.02,
        layer_norm_eps=draw.choice((1e-5, 1e-12)),
        roberta=RobertaConfig(
            mask_id=draw.randint(4, 29),
            pad_id=pad,
            num_positions=length + pad + draw.randint(1, 4),
            num_token_types=draw.randint(1, 2),
        ),
    )


def theirs_of(config: ModelConfig, seed: int):
    """transformers' model with random weights."""
    transformers = pytest.importorskip("transformers")
    fields = ROBERTA.hf_config(config, eod=0)
    fields = {name: fields[name] for name in fields if name not in ("architectures", "model_type", "torch_dtype")}
    model = transformers.RobertaForMaskedLM(transformers.RobertaConfig(**fields, attn_implementation="eager")).eval()
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, param in model.named_parameters():
            is_scale = "norm" in name.lower() and name.endswith("weight")
            param.copy_(torch.randn_like(param) * 0.2 + (1 if is_scale else 0))
    return model


def ours_of(config: ModelConfig, tensors) -> StageModule:
    """The whole model with these tensors, by the names that they are stored under."""
    whole = StageModule(config, range(len(model_of(config).blocks)), None)
    materialise(whole, torch.device("cpu"))
    whole.tie()
    with torch.no_grad():
        for spec, param in whole.named_tensors():
            param.copy_(tensors[spec.stored_name])
    return whole


def batch_of(config: ModelConfig, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Ids with padding among them, labels, and which count: none at all in the first row."""
    generator = torch.Generator().manual_seed(seed)
    ids, labels = (torch.randint(0, 30, (4, config.seq_len), generator=generator) for _ in range(2))
    ids[1, 2] = ids[2, -2] = ids[2, -1] = config.roberta.pad_id
    chosen = torch.rand(ids.shape, generator=generator) < 0.3
    chosen[0] = False
    chosen[3, 0] = True
    return ids, labels, chosen


@pytest.mark.parametrize("seed", range(6))
def test_logits_loss_and_gradients_are_transformers(tmp_path, seed):
    config = random_config(seed)
    theirs = theirs_of(config, seed)
    theirs.save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    assert {name: tuple(tensor.shape) for name, tensor in tensors.items()} == model_of(config).shapes
    ours = ours_of(config, tensors)
    ids, labels, chosen = batch_of(config, seed)
    expected = theirs(ids, labels=labels.masked_fill(~chosen, -100))
    logits = ours(ids, None)
    assert (logits - expected.logits).abs().max() <= TOLERANCE * expected.logits.abs().max()
    loss_sum, weight = modules.loss(logits, labels, chosen.float(), None)
    assert weight == chosen.sum()
    assert (loss_sum / weight - expected.loss).abs() <= 1e-6 * expected.loss
    (loss_sum / weight).backward()
    expected.loss.backward()
    others = dict(theirs.named_parameters())
    for spec, param in ours.named_tensors():
        grad = others[spec.stored_name].grad
        # A bias of the keys adds the same to all scores of a row: its gradient is 0 but for rounding.
        assert (param.grad - grad).norm() <= 1e-5 * grad.norm() + 1e-6, spec.stored_name
    with torch.no_grad():
        theirs.roberta.encoder.layer[0].intermediate.dense.weight.mul_(1.01)
        assert (logits - theirs(ids).logits).abs().max() > 10 * TOLERANCE * logits.abs().max()


def test_padding_has_a_place_of_its_own_and_no_gradient_but_from_the_head():
    config = replace(random_config(1), num_layers=1)
    torch.manual_seed(0)
    ours = ours_of(config, {name: torch.randn(shape) * 0.2 for name, shape in model_of(config).shapes.items()})
    pad, at = config.roberta.pad_id, config.roberta.pad_id + 1
    row = torch.full((1, config.seq_len), 29)
    row[0, 1] = pad
    assert positions_of(row, pad)[0, :4].tolist() == [at, pad, at + 1, at + 2]
    embeddings = ours.blocks["0"]
    embeddings(row, None).square().sum().backward()
    assert not embeddings.word_embeddings.weight.grad[pad].any() and embeddings.word_embeddings.weight.grad[29].any()
    assert not embeddings.position_embeddings.weight.grad[pad].any()


def test_a_model_of_transformers_comes_in_and_goes_back_bit_for_bit(tmp_path):
    config = random_config(9)
    theirs_of(config, 9).save_pretrained(tmp_path / "theirs")
    made = checkpoint.import_checkpoint(tmp_path / "theirs", tmp_path / "saves", foreign=Foreign())
    assert not made.findings
    model = ours_of(config, {name: torch.zeros(shape) for name, shape in model_of(config).shapes.items()})
    shards = [
        Shard(
            name=f"model/{spec.stored_name}",
            global_shape=spec.shape,
            box=tuple((0, length) for length in spec.shape),
            tensor=param.detach(),
        )
        for spec, param in model.named_tensors()
    ]
    checkpoint.load(made.written.path, shards)
    checkpoint.save(tmp_path / "ours", step=1, shards=shards, meta={}, rank=0, world_size=1, agree=alone)
    checkpoint.export_checkpoint(
        tmp_path / "ours" / "step-00000001",
        tmp_path / "back",
        form=Form.HUGGING_FACE,
        foreign=Foreign(family="roberta"),
        config=ROBERTA.hf_config(config, eod=0),
    )
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("theirs", "back"))
    assert set(before) == set(after)
    assert all(before[name].numpy().tobytes() == after[name].numpy().tobytes() for name in before)
    loaded = pytest.importorskip("transformers").AutoModelForMaskedLM.from_pretrained(tmp_path / "back").eval()
    ids = batch_of(config, 9)[0]
    with torch.no_grad():
        logits, expected = model(ids, None), loaded(ids).logits
    assert (logits - expected).abs().max() <= TOLERANCE * expected.abs().max()


@pytest.mark.parametrize("seed", range(3))
def test_a_configuration_goes_out_and_comes_back(seed):
    config = random_config(seed)
    keys = replace(config.roberta, num_positions=config.seq_len + config.roberta.pad_id + 1)
    config = replace(config, roberta=keys, dropout=0.1)
    assert ROBERTA.read_hf_config(ROBERTA.hf_config(config, eod=0)) == config


@pytest.mark.parametrize(
    ("name", "value"),
    [("hidden_act", "relu"), ("position_embedding_type", "relative_key"), ("tie_word_embeddings", False)],
)
def test_what_our_roberta_lacks_is_refused_by_name(name, value):
    document = ROBERTA.hf_config(random_config(0), eod=0) | {name: value}
    with pytest.raises(EmberwardError) as caught:
        ROBERTA.read_hf_config(document)
    assert (caught.value.code, caught.value.where, caught.value.found) == ("K102", f"config.json: {name}", str(value))


def test_the_published_model_has_as_many_parameters_as_transformers_and_the_10b_those_of_its_report():
    assert model_of(BASE).num_parameters == 124_697_433
    large = replace(roberta_10b().model, ffn_hidden=20480, init_std=0.02)
    assert model_of(large).num_parameters == pytest.approx(9.73e9, rel=1e-3)
    assert not list(ROBERTA.misfits(large, tp=1))


@pytest.mark.parametrize(
    ("change", "tp", "message"),
    [
        ({"seq_len": 513}, 1, "the table of positions is too short: model.seq_len at most 512: RoBERTa leaves out the "
         "first 2 positions"),
        ({"vocab_size": 50264}, 1, "a special token lies outside the vocabulary: model.roberta.mask_id below "
         "model.vocab_size"),
        ({"roberta": replace(BASE.roberta, mask_id=1)}, 1, "hidden tokens and padding cannot be told apart: "
         "model.roberta.mask_id other than model.roberta.pad_id"),
        ({"hidden": 760}, 1, "the heads do not divide the width: model.hidden a multiple of model.num_heads, as 756 or "
         "768"),
        ({}, 3, None),
        ({}, 2, "tensor parallel cannot split the model: model.vocab_size a multiple of layout.tp, as 50264 or 50266; "
         "or layout.tp 1 or 3"),
        ({"vocab_size": 50304}, 4, None),
    ],
)  # fmt: skip
def test_sizes_that_do_not_fit_are_refused_and_their_look_alikes_are_not(change, tp, message):
    found = [f"{misfit.what}: {misfit.expected}" for misfit in ROBERTA.misfits(replace(BASE, **change), tp=tp)]
    assert found[:1] == ([] if message is None else [message])


def test_a_forward_that_is_computed_again_draws_the_same():
    config = replace(random_config(2), dropout=0.1, attention_dropout=0.1)
    torch.manual_seed(0)
    tensors = {name: torch.randn(shape) * 0.1 for name, shape in model_of(config).shapes.items()}
    ids, draws = batch_of(config, 2)[0], Draws(seed=3, step=1, samples=(4, 9, 2, 7))
    grads = []
    for recompute in (False, True):
        whole = ours_of(replace(config, recompute=recompute), tensors)
        torch.rand(7)  # a generator of the process must not matter
        dropped = whole(ids, draws)
        assert not torch.equal(dropped, whole(ids, None))
        dropped.square().sum().backward()
        grads.append([param.grad for _, param in whole.named_tensors()])
    assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))


def test_old_files_of_transformers_come_in_without_what_they_repeat(tmp_path):
    """Files of version 4 hold the tied decoder, the numbers of positions and a pooler that is not used."""
    from safetensors.torch import save_file

    config = random_config(4)
    theirs_of(config, 4).save_pretrained(tmp_path / "new")
    tensors = load_file(tmp_path / "new" / "model.safetensors")
    width = config.hidden
    more = {
        "lm_head.decoder.weight": tensors[TABLE].clone(),
        "lm_head.decoder.bias": tensors["lm_head.bias"].clone(),
        "roberta.embeddings.position_ids": torch.arange(config.seq_len)[None],
        "roberta.pooler.dense.weight": torch.ones(width, width),
        "roberta.pooler.dense.bias": torch.ones(width),
    }
    old = tmp_path / "old"
    old.mkdir()
    save_file({**tensors, **more}, old / "model.safetensors", metadata={"format": "pt"})
    Path(old / "config.json").write_text((tmp_path / "new" / "config.json").read_text())
    made = checkpoint.import_checkpoint(old, tmp_path / "saves", foreign=Foreign())
    manifest = checkpoint.read_manifest(made.written.path)
    assert {name.removeprefix("model/") for name in manifest.tensors} == set(model_of(config).shapes)
