"""Debug operations as text: what is understood, and what is refused before any rank starts."""

import math

import pytest
from ranks.cases import small_recipe

from emberward.families import model_of
from emberward.findings import ConfigError
from emberward.layout import Axis
from emberward.recipe import DebugTarget, DebugVerb, parse_debug
from emberward.recipe._debug import require_debug

NAMES = tuple(model_of(small_recipe().model).shapes)


def test_a_line_is_read():
    found = parse_debug("range blocks.*.mlp of=grad max=1e3 step=0-2+7 mb=1 rank=0+3")
    assert (found.verb, found.pattern, found.of) == (DebugVerb.RANGE, "blocks.*.mlp", DebugTarget.GRAD)
    assert (found.low, found.high, found.axis) == (-math.inf, 1e3, None)
    assert (found.steps, found.micro_batches, found.ranks) == ({0, 1, 2, 7}, {1}, {0, 3})
    assert found.is_on(step=7, micro_batch=1) and not found.is_on(step=7, micro_batch=0)
    assert not found.is_on(step=3, micro_batch=1)
    assert parse_debug("equal embed axis=tp").axis is Axis.TP


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "a verb first"),
        ("prnt blocks.0", "did you mean print?"),
        ("print", "the name of a module or parameter"),
        ("print blocks.0 stp=1", "did you mean step=?"),
        ("print blocks.0 step=a", "numbers as 3, 0-2 or 0+4"),
        ("print blocks.0 step=3-1", "numbers as 3, 0-2 or 0+4"),
        ("print blocks.0 of=weight", "of=output or of=grad"),
        ("range blocks.0", "min= or max= with range"),
        ("range blocks.0 max=big", "a number, not big"),
        ("equal blocks.0", "axis=dp or axis=tp with equal"),
        ("equal blocks.0 axis=pp", "axis=dp or axis=tp"),
        ("equal blocks.0 axis=tp rank=0", "every rank makes in every step"),
    ],
)
def test_a_line_that_is_not_understood_says_what_is(text, told):
    with pytest.raises(ConfigError) as caught:
        parse_debug(text)
    assert caught.value.code == "C103"
    assert told in caught.value.text()


def test_names_and_ranks_that_the_run_lacks_are_refused_with_the_nearest():
    with pytest.raises(ConfigError) as caught:
        require_debug([parse_debug("print block.0.mlp")], NAMES, num_ranks=2)
    assert caught.value.code == "C117"
    assert 'debug="print blocks.0.mlp"' in caught.value.text()
    with pytest.raises(ConfigError, match="names rank 2"):
        require_debug([parse_debug("print blocks.0 rank=2")], NAMES, num_ranks=2)
    require_debug([parse_debug("print blocks.0.mlp rank=1"), parse_debug("finite *")], NAMES, num_ranks=2)
