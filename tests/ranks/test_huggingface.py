"""The decoder is Hugging Face's BLOOM: same weights, same logits."""

import pytest
import torch
from transformers import BloomForCausalLM
from transformers.models.bloom.modeling_bloom import build_alibi_tensor

from emberward.engine import export_hf, shape_of
from emberward.engine._bloom import alibi_slopes, canonical_name
from emberward.findings import EmberwardError
from ranks.cases import batch_of, plain_model, small_recipe

TOLERANCE = 1e-5
"""Greatest difference of logits of order 1 in float32; the two add in different orders."""


def test_logits_equal_transformers_with_exported_weights(tmp_path):
    recipe = small_recipe()
    model = plain_model(recipe)
    parameters = {canonical_name(name): param for name, param in model.named_parameters()}
    export_hf(parameters, shape_of(recipe), tmp_path / "hf", eod=0)
    theirs = BloomForCausalLM.from_pretrained(tmp_path / "hf", dtype=torch.float32).eval()
    tokens, _, _ = batch_of(0)
    with torch.no_grad():
        ours, hugging = model(tokens), theirs(tokens).logits
    assert ours.abs().max() > 0.1
    assert (ours - hugging).abs().max().item() < TOLERANCE
    with torch.no_grad():
        theirs.transformer.h[1].mlp.dense_h_to_4h.weight.mul_(1.01)
        assert (ours - theirs(tokens).logits).abs().max().item() > TOLERANCE


@pytest.mark.parametrize("num_heads", [1, 2, 8, 12, 112])
def test_alibi_slopes_are_blooms(num_heads):
    mask = torch.ones(1, 2)
    theirs = build_alibi_tensor(mask, num_heads, torch.float32)[:, 0, 1]
    assert torch.allclose(torch.tensor(alibi_slopes(num_heads)), theirs, rtol=1e-6, atol=0)


def test_a_width_that_bloom_cannot_express_is_refused(tmp_path):
    from dataclasses import replace

    shape = replace(shape_of(small_recipe()), ffn_hidden=100)
    with pytest.raises(EmberwardError, match="4 x hidden = 128"):
        export_hf({}, shape, tmp_path / "hf")
