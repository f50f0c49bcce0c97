"""To which of two calls a program comes first, from the place of the one before, by its text."""

import pytest

from emberward.diagnose import Frame, comes_first

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
