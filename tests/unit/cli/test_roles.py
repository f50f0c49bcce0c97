"""Which rank stands for which in a proof: ranks of one stage do, unless tp or dp cuts what they send unevenly."""

from dataclasses import replace

import pytest

from emberward.cli._prove import representatives
from emberward.families import ModelConfig, RobertaConfig
from emberward.layout import Axis, Mesh
from emberward.recipe import Recipe
from emberward.recipe.presets import bloom_tiny, roberta_tiny, swin_tiny

MESH = Mesh(axes=((Axis.PP, 2), (Axis.DP_SHARD, 2), (Axis.TP, 2)))
BLOOM = replace(bloom_tiny().model, ffn_hidden=512, vocab_size=384, init_std=0.02)
SWIN = replace(swin_tiny().model, init_std=0.02)
ROBERTA = replace(
    roberta_tiny().model,
    ffn_hidden=512,
    vocab_size=384,
    init_std=0.02,
    roberta=RobertaConfig(mask_id=257, num_positions=66, num_token_types=2),
)
ONE_TYPE = replace(ROBERTA, roberta=RobertaConfig(mask_id=257, num_positions=66))
EVEN = replace(SWIN, stage_heads=(2, 6, 12))


def recipe_of(config: ModelConfig) -> Recipe:
    """A recipe of the model that the mesh is laid out for."""
    return replace(bloom_tiny(), model=config)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (BLOOM, (0, 0, 0, 0, 4, 4, 4, 4)),
        (EVEN, (0, 0, 0, 0, 4, 4, 4, 4)),
        (SWIN, (0, 1, 0, 1, 4, 5, 4, 5)),
        (ROBERTA, (0, 0, 0, 0, 4, 4, 4, 4)),
        (ONE_TYPE, (0, 0, 2, 2, 4, 4, 6, 6)),
        (replace(ROBERTA, vocab_size=386), (0, 0, 2, 2, 4, 4, 6, 6)),
    ],
    ids=["bloom", "two heads", "three heads", "two token types", "one token type", "an odd part of the vocabulary"],
)
def test_a_rank_stands_for_those_whose_parts_have_its_shapes(config: ModelConfig, expected):
    assert representatives(MESH, recipe_of(config)) == expected


def test_what_dp_cuts_unevenly_and_no_later_call_sends_makes_no_role():
    recipe = recipe_of(ONE_TYPE)
    whole = replace(recipe, layout=replace(recipe.layout, sequence_parallel=False))
    assert len(set(representatives(MESH, whole))) == 2
    assert set(representatives(Mesh(axes=((Axis.DP_SHARD, 5),)), recipe)) == {0}
