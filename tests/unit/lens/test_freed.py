"""What a call's own instruction takes has the cause of what is seen below it, where that has one."""

from dataclasses import replace

import pytest
from unit.lens.test_work import seen

from emberward.findings import Cause
from emberward.lens import Instruction, Sampled
from emberward.lens._causes import Told
from emberward.lens._freed import with_freed

WAITS = Told(cause=Cause.DATA_WAIT, site="train.py:9")
PRINTS = Told(cause=Cause.PRINT, site="train.py:9")
LINE = Instruction("train.py", "main", 1, "user", 9, 9, 4, 20, "PRECALL")
SAMPLER = Instruction("/x/torch/utils/data/sampler.py", "__iter__", 1, "torch", 182, 182, 8, 30, "PRECALL")


def told_of(*stacks):
    """What is told of the last one: each is frames, milliseconds, what is told of it, and a flag."""
    sampled = tuple(Sampled(stack=frames, flag=flag, steps={0: (ms / 1e3, ms / 1e3)}) for frames, ms, _, flag in stacks)
    rank = replace(seen(("train.py", "main", "user", 9)), stacks=sampled)
    return with_freed(rank, [told for _, _, told, _ in stacks])[-1]


BELOW = ((SAMPLER, LINE), 7.0, WAITS, "")
AT = ((LINE,), 2.0, None, "")


def test_what_the_line_s_call_frees_is_told_as_what_the_call_does():
    assert told_of(BELOW, AT) == WAITS
    assert told_of(((SAMPLER, LINE), 1.0, None, "gc"), BELOW, AT) == WAITS


@pytest.mark.parametrize(
    "stacks",
    [
        (AT,),
        (((SAMPLER, LINE), 7.0, None, ""), AT),
        (BELOW, ((SAMPLER, LINE), 3.0, None, ""), AT),
        (BELOW, ((SAMPLER, LINE), 3.0, PRINTS, ""), AT),
        (BELOW, ((replace(LINE, column=24, last_column=30),), 2.0, None, "")),
        (BELOW, ((replace(LINE, operation="STORE_FAST"),), 2.0, None, "")),
        (BELOW, ((LINE,), 2.0, None, "gc")),
        (BELOW, ((replace(LINE, owner="torch"),), 2.0, None, "")),
    ],
    ids=[
        "nothing below", "work below", "some work below", "another cause below", "another call", "no call",
        "a collection", "a library's",
    ],
)  # fmt: skip
def test_what_has_no_cause_below_or_is_no_such_call_has_none(stacks):
    assert told_of(*stacks) is None
