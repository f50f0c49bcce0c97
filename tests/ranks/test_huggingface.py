"""Each family is the model that transformers knows by its name: same weights, same logits."""

import json
import random
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, LlamaForCausalLM
from transformers.models.bloom.modeling_bloom import build_alibi_tensor

from emberward import checkpoint
from emberward.checkpoint import Foreign, Form, Shard, alone
from emberward.families import LlamaConfig, ModelConfig, find_family
from emberward.families.bloom.modules import alibi_slopes
from emberward.families.layers import token_loss
from emberward.findings import EmberwardError
from ranks.cases import SEQ, VOCAB, batch_of, plain_model, small_recipe

TOLERANCE = 1e-5
"""Greatest difference of logits of order 1 in float32; the two add in different orders."""


def shards_of(model):
    """Every parameter of a whole model as a piece of a save."""
    return [
        Shard(name=f"model/{spec.stored_name}", global_shape=spec.shape, box=tuple((0, n) for n in spec.shape),
              tensor=param.detach())
        for spec, param in model.named_tensors()
    ]  # fmt: skip


def exported(recipe, model, folder):
    """The model as a Hugging Face folder, by way of a save."""
    checkpoint.save(folder / "saves", step=1, shards=shards_of(model), meta={}, rank=0, world_size=1, agree=alone)
    config = find_family(recipe.model.family).hf_config(recipe.model, eod=0)
    foreign = Foreign(family=recipe.model.family)
    checkpoint.export_checkpoint(
        folder / "saves" / "step-00000001", folder / "hf", form=Form.HUGGING_FACE, foreign=foreign, config=config
    )
    return folder / "hf"


def test_logits_equal_transformers_with_exported_weights(tmp_path):
    recipe = small_recipe()
    model = plain_model(recipe)
    folder = exported(recipe, model, tmp_path)
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokens, _, _ = batch_of(0)
    with torch.no_grad():
        ours, hugging = model(tokens), theirs(tokens).logits
    assert ours.abs().max() > 0.1
    assert (ours - hugging).abs().max().item() < TOLERANCE
    with torch.no_grad():
        theirs.transformer.h[1].mlp.dense_h_to_4h.weight.mul_(1.01)
        assert (ours - theirs(tokens).logits).abs().max().item() > TOLERANCE


LLAMA_TOLERANCE = 2e-6
"""Greatest difference of logits of order 1 in float32."""


def random_llama(seed: int) -> ModelConfig:
    """A small llama, drawn by the seed: heads, key heads, widths, scaling, tied or not."""
    draw = random.Random(seed)
    kv = draw.choice([1, 2, 3])
    factor = draw.choice([None, 8.0])
    heads = kv * draw.choice([1, 2, 4])
    return ModelConfig(
        family="llama",
        num_layers=draw.choice([1, 2, 3]),
        hidden=heads * draw.choice([4, 8, 10]),
        num_heads=heads,
        ffn_hidden=draw.choice([24, 40, 96]),
        vocab_size=VOCAB,
        seq_len=SEQ,
        layer_norm_eps=draw.choice([1e-5, 1e-6]),
        init_std=0.1,
        llama=LlamaConfig(
            num_kv_heads=kv,
            rope_theta=draw.choice([100.0, 500000.0]),
            rope_factor=factor,
            rope_positions=8192 if factor is None else 8,
            is_tied=draw.random() < 0.5,
            head_size=draw.choice([None, 12]),
        ),
    )


@pytest.mark.parametrize("seed", range(4))
def test_llama_s_logits_loss_and_files_equal_transformers(tmp_path, seed):
    config = random_llama(seed)
    recipe = replace(small_recipe(), model=config)
    model = plain_model(recipe)
    folder = exported(recipe, model, tmp_path)
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokens, labels, _ = batch_of(0)
    with torch.no_grad():
        ours, hugging = model(tokens), theirs(tokens).logits
        loss, count = token_loss(ours, labels, torch.ones_like(labels, dtype=torch.float32), None)
        expected = torch.nn.functional.cross_entropy(hugging.flatten(0, 1), labels.flatten())
    assert ours.abs().max() > 0.1
    assert (ours - hugging).abs().max().item() < LLAMA_TOLERANCE
    assert abs((loss / count - expected).item()) < LLAMA_TOLERANCE
    with torch.no_grad():
        theirs.model.layers[0].mlp.up_proj.weight.mul_(1.01)
        assert (ours - theirs(tokens).logits).abs().max().item() > LLAMA_TOLERANCE
    document = json.loads((folder / "config.json").read_text())
    assert find_family("llama").read_hf_config(document) == config


def test_a_llama_of_transformers_is_trained_on_and_goes_back_bit_for_bit(tmp_path):
    config = LlamaForCausalLM.config_class(
        vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=SEQ, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    torch.manual_seed(5)
    LlamaForCausalLM(config).save_pretrained(tmp_path / "theirs")
    document = json.loads((tmp_path / "theirs" / "config.json").read_text())
    recipe = replace(small_recipe(), model=find_family("llama").read_hf_config(document))
    made = checkpoint.import_checkpoint(tmp_path / "theirs", tmp_path / "saves", foreign=Foreign())
    model = plain_model(recipe)
    checkpoint.load(made.written.path, shards_of(model))
    back = exported(recipe, model, tmp_path / "unchanged")
    ours, theirs = load_file(back / "model.safetensors"), load_file(tmp_path / "theirs" / "model.safetensors")
    assert set(ours) == set(theirs)
    assert all(ours[name].numpy().tobytes() == theirs[name].numpy().tobytes() for name in theirs)

    adamw = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for step in range(10):
        tokens, labels, weights = batch_of(step)
        loss, count = token_loss(model(tokens), labels, weights, None)
        adamw.zero_grad()
        (loss / count).backward()
        adamw.step()
        losses.append((loss / count).item())
    assert losses[-1] < losses[0] - 0.1
    trained = AutoModelForCausalLM.from_pretrained(exported(recipe, model, tmp_path / "trained"), dtype=torch.float32)
    tokens, _, _ = batch_of(0)
    with torch.no_grad():
        assert (model(tokens) - trained.eval()(tokens).logits).abs().max().item() < LLAMA_TOLERANCE


@pytest.mark.parametrize(
    ("change", "found"),
    [({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}, "rope_parameters": None}, "yarn"),
     ({"attention_bias": True}, "True"), ({"hidden_act": "gelu"}, "gelu"), ({"mlp_bias": True}, "True")],
)  # fmt: skip
def test_what_our_llama_lacks_is_refused_by_name(change, found):
    config = random_llama(0)
    document = {**find_family("llama").hf_config(config, eod=0), **change}
    with pytest.raises(EmberwardError) as caught:
        find_family("llama").read_hf_config(document)
    assert (caught.value.code, caught.value.found) == ("K102", found)


@pytest.mark.parametrize("num_heads", [1, 2, 8, 12, 112])
def test_alibi_slopes_are_blooms(num_heads):
    mask = torch.ones(1, 2)
    theirs = build_alibi_tensor(mask, num_heads, torch.float32)[:, 0, 1]
    assert torch.allclose(torch.tensor(alibi_slopes(num_heads)), theirs, rtol=1e-6, atol=0)


def test_a_width_that_bloom_cannot_express_is_refused():
    config = replace(small_recipe().model, ffn_hidden=100)
    with pytest.raises(EmberwardError, match="4 x hidden = 128"):
        find_family("bloom").hf_config(config, eod=0)
