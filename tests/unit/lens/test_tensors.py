"""Which lines compute with tensors, by looks and samples that are written down, and what that says of a batch."""

from dataclasses import replace

import pytest
from unit.lens.test_logs_and_lists import RANK

from emberward.findings import Cause
from emberward.lens import Instruction, Operation, RankOperations, Sampled, Sources, tell
from emberward.lens._tensors import is_plain, tensor_shares

PROGRAM = """def main():
    for step in range(99):
        index = draw(step)
        rows = frame.take(index)
        x = make(features(rows))
        loss = model(x)
        loss.backward()
def features(rows):
    rows = rows.copy()
    ranks = rows.rank()
    return merge(ranks)
"""


def at(line, text, function="features", operation="CALL"):
    column = PROGRAM.splitlines()[line - 1].index(text)
    return Instruction("train.py", function, 1, "user", line, line, column, column + len(text), operation)


PANDAS = Instruction("/x/site-packages/pandas/core/frame.py", "rank", 1, "package", 9, 9, 4, 9, "CALL")
LINEAR = Instruction("/x/site-packages/torch/nn/modules/linear.py", "forward", 1, "package", 9, 9, 4, 9, "CALL")
COPIES, RANKS, MERGES = at(9, "rows.copy()"), at(10, "rows.rank()"), at(11, "merge(ranks)")
FEATURES, MODEL = at(5, "features(rows)", "main"), at(6, "model(x)", "main")
BINDS = at(6, "loss", "main", "STORE_FAST")


def sampled(*stack, steps=1):
    return Sampled(stack=stack, flag="", steps={step: (0.01, 0.01) for step in range(steps)})


def operations(*looks):
    """An operation from 1 s to 2 s, and looks at moments."""
    return RankOperations(
        rank=0, device="cpu", device_name="cpu", threads=1, main=7, bounds_s=(0.0, 9.0), parameters=(), free_bytes=None,
        operations=(Operation("aten::mm", 7, 1.0, 2.0, -1, 0, False, (), ()),), why_short=None, is_cut=False,
        looks=tuple(looks),
    )  # fmt: skip


def shares_of(stacks, *looks):
    found = tensor_shares(replace(RANK, stacks=tuple(stacks)), operations(*looks))
    return {line: share for (_, line), share in found.items()}


def test_a_look_inside_an_operation_is_with_tensors_and_one_outside_is_not_at_every_line_of_the_stack():
    looks = [(1.5, (MODEL,)), (1.6, (MODEL,)), (3.0, (MERGES, FEATURES)), (3.1, (MERGES, FEATURES))]
    assert shares_of([], *looks) == {6: 1.0, 11: 0.0, 5: 0.0}
    assert shares_of([], looks[0], looks[2]) == {}  # Once is too little.


def test_a_sample_in_a_library_tells_and_one_in_the_program_s_own_line_does_not():
    assert shares_of([sampled(PANDAS, RANKS, FEATURES)]) == {10: 0.0, 5: 0.0}
    assert shares_of([sampled(LINEAR, MODEL)]) == {6: 1.0}
    other = replace(PANDAS, file="/x/site-packages/kornia/filters.py")
    assert shares_of([sampled(other, RANKS, steps=9), sampled(MERGES, FEATURES, steps=9)]) == {}


def test_lines_are_plain_where_something_is_known_and_no_tensor():
    shares = {("a.py", 1): 0.0, ("a.py", 2): 0.9}
    assert is_plain([("a.py", 1), ("a.py", 3)], shares)
    assert not is_plain([("a.py", 1), ("a.py", 2)], shares) and not is_plain([("a.py", 3)], shares)


@pytest.mark.parametrize(
    ("stack", "shares", "is_told"),
    [
        ((PANDAS, RANKS, FEATURES), {9: 0.0, 10: 0.0}, True),
        ((PANDAS, RANKS, FEATURES), {}, False),  # By its text ``rows.copy()`` may be a model's.
        ((PANDAS, RANKS, FEATURES), {9: 0.5, 10: 0.0}, False),  # And it is.
        ((MERGES, FEATURES), {9: 0.0, 10: 0.0, 11: 0.0}, True),  # A function in C that nobody knows.
        ((MERGES, FEATURES), {9: 0.0, 10: 0.0, 11: 0.6}, False),  # An operation of torch's.
        ((BINDS,), {}, True),
        ((BINDS,), {6: 0.9}, False),  # The old value, a tensor, is freed there.
    ],
)
def test_a_batch_is_python_s_where_its_lines_were_seen_without_tensors(stack, shares, is_told):
    lines = {("train.py", line): share for line, share in shares.items()}
    rank = replace(RANK, loop=(("train.py", "main", 1),), shares=lines)
    found = tell(sampled(*stack), rank, Sources(lambda file: PROGRAM if file == "train.py" else ""))
    assert (found is not None and found.cause is Cause.DATA_WAIT) == is_told
