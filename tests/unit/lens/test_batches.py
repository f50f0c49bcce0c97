"""Batches that a program makes in its loop: what is told of stacks that are written down."""

from dataclasses import replace

import pytest
from unit.lens.test_logs_and_lists import RANK

from emberward.findings import Cause
from emberward.lens import Instruction, Sampled, Sources, tell
from emberward.lens._replay import Replay
from emberward.lens._stalls import find_stalls

PROGRAM = """model = build()
for step in range(99):
    rows = [encode(text) for text in texts[step]]
    x = pad(rows)
    loss = model(x)
    pairs = [sorted(each) for each in match(loss)]
    total = score(loss, pairs)
    total.backward()
    seen = [str(text) for text in texts]
    picked = table[rows]
    y = model(picked)
    codes = model.codes(x)
    words = [str(code) for code in codes]
    total = total + weigh(words)
    cast = texts[0].float()
    total = total + cast.sum()
def encode(text):
    return [words.get(each, 0) for each in text.split()]
def match(loss):
    return [each.lower() for each in names(loss)]
"""
PIL = Instruction("/x/site-packages/PIL/Image.py", "resize", 1, "package", 9, 9, 4, 9, "CALL")
KERNEL = Instruction("/x/torch/functional.py", "norm", 1, "platform", 9, 9, 4, 9, "CALL")


def at(line, column, last_column, function="<module>"):
    return Instruction("train.py", function, 1, "user", line, line, column, last_column, "CALL")


SPLITS, ENCODES = at(18, 43, 55, "encode"), at(3, 12, 24)
LOWERS, MATCHES = at(20, 12, 24, "match"), at(6, 37, 48)


@pytest.mark.parametrize(
    ("stack", "line"),
    [
        ((SPLITS, ENCODES), 3),
        ((PIL, at(18, 43, 55, "encode"), ENCODES), 3),
        ((replace(PIL, file="/x/site-packages/timm/data/mixup.py"), ENCODES), None),  # It computes with tensors.
        ((KERNEL, ENCODES), None),  # An operation of torch's.
        ((LOWERS, MATCHES), None),  # Made of what the model has computed.
        ((at(9, 12, 21),), None),  # The loss is not computed from it.
        ((at(13, 13, 22),), None),  # Nor that of which a method of the model's has a part.
        ((at(15, 11, 27),), None),  # A tensor has such a method.
        ((at(10, 13, 24),), None),  # Nobody knows what table is.
    ],
)
def test_python_s_work_for_the_loss_is_data_wait_and_no_other_is(stack, line):
    sampled = Sampled(stack=stack, flag="", steps={0: (0.01, 0.01)})
    rank = replace(RANK, loop=(("train.py", "<module>", 1),))
    told = tell(sampled, rank, Sources(lambda file: PROGRAM if file == "train.py" else ""))
    data_wait = told is not None and told.cause is Cause.DATA_WAIT
    assert (told.site if data_wait else None) == (None if line is None else f"train.py:{line}")


@pytest.mark.parametrize(
    ("spent_s", "cpu_s", "is_told"),
    [(0.002, 0.002, False), (0.005, 0.005, True), (0.002, 0.0, True)],
    ids=["a worker's batch costs as much", "more than that", "a wait for one"],
)
def test_data_that_a_worker_would_not_bring_sooner_are_made_well_in_the_loop(spent_s, cpu_s, is_told):
    steps, length_s = range(20), 0.04
    loader = Instruction("/x/torch/utils/data/dataloader.py", "__next__", 1, "platform", 9, 9, 4, 9, "CALL")
    turn = Instruction("train.py", "<module>", 1, "user", 2, 2, 12, 21, "FOR_ITER")
    stacks = [
        Sampled(stack=(loader, turn), flag="", steps=dict.fromkeys(steps, (spent_s, cpu_s))),
        Sampled(stack=(KERNEL, at(5, 11, 19)), flag="", steps=dict.fromkeys(steps, (length_s - spent_s,) * 2)),
    ]
    bounds = tuple(length_s * step for step in range(len(steps) + 1))
    rank = replace(RANK, loop=(("train.py", "<module>", 1),), stacks=tuple(stacks), bounds_s=bounds)
    sources = Sources(lambda file: PROGRAM if file == "train.py" else "")
    found = find_stalls([rank], sources, Replay([], [rank]))
    assert [each.cause for each in found] == [Cause.DATA_WAIT] * is_told
