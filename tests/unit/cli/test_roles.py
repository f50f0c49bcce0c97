"""Which rank stands for which in a proof: ranks of one stage do, unless tp cuts their tensors into unequal parts."""

from dataclasses import replace

import pytest

from emberward.cli._prove import _representatives
from emberward.families import ModelConfig, model_of
from emberward.layout import Axis, Mesh
from emberward.recipe.presets import bloom_tiny, swin_tiny

MESH = Mesh(axes=((Axis.PP, 2), (Axis.DP_SHARD, 2), (Axis.TP, 2)))
BLOOM = replace(bloom_tiny().model, ffn_hidden=512, vocab_size=384, init_std=0.02)
SWIN = replace(swin_tiny().model, init_std=0.02)
EVEN = replace(SWIN, stage_heads=(2, 6, 12))


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (BLOOM, (0, 0, 0, 0, 4, 4, 4, 4)),
        (EVEN, (0, 0, 0, 0, 4, 4, 4, 4)),
        (SWIN, (0, 1, 0, 1, 4, 5, 4, 5)),
    ],
    ids=["bloom", "two heads", "three heads"],
)
def test_a_rank_stands_for_those_whose_parts_have_its_shapes(config: ModelConfig, expected):
    assert _representatives(MESH, model_of(config)) == expected
