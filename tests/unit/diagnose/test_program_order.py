"""To which of two calls a program comes first, from the place of the one before, by its text."""

import pytest

from emberward.diagnose import Frame, comes_first
from emberward.diagnose._parting import is_dispatched, kept_away
from emberward.diagnose._program import is_in_every_turn, place_in

TEXT = """\
class Meter:
    def mean(self):
        all_reduce(self.sum)
        return self.sum.mean()


class Scores:
    def reduce(self):
        for label in self.seen:
            all_reduce(label)


def main():
    meter, scores = Meter(), Scores()
    for epoch in range(3):
        for batch in data:
            loss = net(batch).mean()
            loss.backward()
            if rank == 0:
                all_gather(loss)
            step.sync()
        print(meter.mean())
        if chief:
            all_gather(loss)
        else:
            barrier()
        scores.reduce()
    barrier()


def joined():
    with Join(model):
        for batch in data:
            model(batch)
        all_reduce(done)
"""
BACKWARD, IN_STEP, SYNC, MEAN, CHIEF, ELSE, LABEL, END = 18, 20, 21, 3, 24, 26, 10, 28
JOIN, FORWARD = 32, 34


def frame(line: int) -> tuple[Frame, ...]:
    name = {MEAN: "mean", LABEL: "reduce"}.get(line, "main" if line <= END else "joined")
    return (Frame(function=name, file="/job/train.py", line=line),)


def line_of(at: Frame) -> str | None:
    lines = TEXT.splitlines()
    return lines[at.line - 1] if at.line is not None and at.line <= len(lines) else None


@pytest.mark.parametrize(
    ("before", "ours", "theirs", "is_first"),
    [
        (BACKWARD, IN_STEP, BACKWARD, True),  # one more, before the next turn
        (BACKWARD, MEAN, BACKWARD, False),  # left the loop that the others stay in; `mean` by its class
        (BACKWARD, BACKWARD, MEAN, True),
        (LABEL, LABEL, BACKWARD, True),  # one more turn of an inner loop, the others are in the next epoch
        (MEAN, CHIEF, BACKWARD, True),
        (MEAN, CHIEF, ELSE, None),  # a choice
        (LABEL, END, BACKWARD, False),
        (SYNC, BACKWARD, BACKWARD, None),
        (FORWARD, FORWARD, JOIN, True),  # a `with` around a place is left, not entered
        (END, MEAN, BACKWARD, None),  # behind all loops nothing is reached any more
    ],
)
def test_a_program_goes_on_from_where_it_was(before, ours, theirs, is_first):
    assert comes_first(frame(before), frame(ours), frame(theirs), line_of) is is_first


WAYS = """\
import torch.distributed as dist

TABLE = {"near": near, "far": far}


def near(x):
    dist.all_reduce(x)


def far(x):
    dist.reduce(x, 0)


def by_value(x, kind):
    return TABLE[kind](x) + 1


def by_name(x, owner, kind):
    getattr(owner, kind)(x)


def one_after_another(x):
    for each in TABLE.values():
        each(x)


def both(x):
    return near(x) + far(x)


def visit(groups, x):
    for group in sorted(groups):
        y = x.clone()
        dist.broadcast(y, 0, group=group)


def visit_some(groups, x):
    for group in groups:
        if group is None:
            continue
        dist.broadcast(x, 0, group=group)


def share(x, size):
    if size < 9:
        return x
    dist.new_group([0, 1])


def train(x, size):
    for step in range(9):
        share(x, size)
        dist.barrier()


def train_some(x, size):
    for step in range(9):
        if step:
            share(x, size)
        dist.barrier()
"""
PLACES = {"near": 7, "far": 11, "by_value": 15, "by_name": 19, "one_after_another": 24, "both": 28}


def at(function: str, line: int, file: str = "/job/ways.py") -> Frame:
    return Frame(function=function, file=file, line=line)


def text_of_ways(frame: Frame) -> str | None:
    lines = WAYS.splitlines()
    return lines[frame.line - 1] if frame.line is not None and 0 < frame.line <= len(lines) else None


@pytest.mark.parametrize(
    ("caller", "is_choice"), [("by_value", True), ("by_name", True), ("one_after_another", False), ("both", False)]
)
@pytest.mark.parametrize("through", [(), (Frame(function="inner", file="/x/site-packages/torch/a.py", line=1),)])
def test_one_call_that_leads_to_two_functions_is_a_choice_between_them(caller, is_choice, through):
    below = [(*([at(name, PLACES[name])]), *through, at(caller, PLACES[caller])) for name in ("near", "far")]
    assert is_dispatched(*below, text_of_ways) is is_choice
    assert is_dispatched(*below[::-1], text_of_ways) is is_choice


def test_a_line_that_each_turn_comes_to_is_left_out_by_none():
    assert is_in_every_turn(place_in(WAYS, 34))
    assert not is_in_every_turn(place_in(WAYS, 41))
    assert not is_in_every_turn(place_in(WAYS, 7))


def test_who_went_another_way_than_to_a_call_did_so_at_a_choice_on_the_way():
    theirs = (at("share", 47), at("train", 52))
    assert [(turn.function, turn.line) for turn in kept_away((at("train", 53),), theirs, text_of_ways)] == [
        ("share", 45)
    ]
    # A choice that each rank makes alike is none; where the two are in one function already there is no way.
    theirs = (at("share", 47), at("train_some", 59))
    assert [turn.line for turn in kept_away((at("train_some", 60),), theirs, text_of_ways)] == [45]
    assert kept_away((at("train", 53),), (at("train", 53),), text_of_ways) == []


STEPS = """\
def sync(handles):
    for handle in handles:
        handle.wait()


def fit(handles):
    for batch in data:
        sync(handles)
        if chief:
            report()
    barrier()
"""


def test_a_loop_over_handles_may_have_had_all_its_turns():
    def line_of(frame: Frame) -> str | None:
        lines = STEPS.splitlines()
        return lines[frame.line - 1] if frame.line is not None and 0 < frame.line <= len(lines) else None

    before, report, end = ((at(name, line, "/job/fit.py"),) for name, line in (("sync", 3), ("fit", 10), ("fit", 11)))
    assert comes_first(before, report, before, line_of) is None  # in this step, or the others in the next one
    assert comes_first(before, end, before, line_of) is False  # behind all loops: turns were left out
