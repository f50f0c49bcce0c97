"""What the sampler keeps of a thread: against the clock around each line, and of looks that come late."""

import dis
import math
import time

import torch

from emberward.lens import read_samples
from emberward.sources._sampler import PERIOD_S, SWITCH_S, Sampler


def test_time_before_a_call_that_has_only_begun_is_kept_at_what_goes_on_after_it(tmp_path):
    sampler = Sampler(tmp_path / "rank.lens", warmup=1, num_steps=2, head=dict, flag=str)
    sampler._queued = [0]
    first, same, other = (code_at(reads_twice, name) for name in ("first", "second", "third"))
    loop, next_line, leaf = code_at(loops, "reads_twice"), code_at(loops, "work"), code_at(work, "sum")
    sampler._codes.update({id(code) + at: (code, at) for code, at in (first, same, other, loop, next_line, leaf)})
    first, same, other, loop, next_line, leaf = (
        id(code) + at for code, at in (first, same, other, loop, next_line, leaf)
    )
    stack = (first, loop)
    for later, kept in (
        (stack, stack),
        ((same, loop), stack),  # The statement goes on.
        ((other, loop), (-first, loop)),  # Its function does: no call of it had that time.
        ((leaf, loop), (loop,)),  # What calls it does.
        ((loop,), (loop,)),
        ((leaf, next_line), (-loop,)),  # The loop alone does.
    ):
        sampler._snapshot = lambda later=later: later
        assert sampler._settled(stack) == kept
    places = [line["place"] for line in sampler._lines(is_last=True) if "place" in line]
    assert [place[-3:] for place in places if place[-1] == ""] == [[None, None, ""]] * 2


def reads_twice(value):
    value.first(value.second())
    value.third()


def work():
    return sum(range(300_000))


def loops(value):
    reads_twice(value)
    work()


def code_at(function, name):
    """The code and the instruction that loads a name in it."""
    found = dis.get_instructions(function)
    return function.__code__, next(each.offset for each in found if each.argval == name)


def computes():
    return sum(i * i for i in range(120_000))


def keeps_the_interpreter():
    return sorted(NUMBERS)


def gives_it_away_often():
    return [MATRIX[0, 0].item() for _ in range(3000)]


def gives_it_away_for_long():
    return [MATRIX @ MATRIX for _ in range(4)]


NUMBERS = [(each * 7919) % 100_003 for each in range(60_000)]
MATRIX = torch.ones(400, 400)


def test_each_line_gets_the_time_that_it_took(tmp_path):
    """Against the clock around each, in the same steps: the way in which a line works does not matter.

    A look lies at one place of its period of 5 ms, so n looks tell a time to 1 / sqrt(n) of itself, less as neighbours
    share them: three such deviations, and up to `SWITCH_S` a turn for what the interpreter was waited for.
    """
    parts = (computes, keeps_the_interpreter, gives_it_away_often, gives_it_away_for_long)
    took, steps = dict.fromkeys((part.__name__ for part in parts), 0.0), 120
    sampler = Sampler(
        tmp_path / "rank00000-1.lens",
        warmup=1,
        num_steps=steps,
        head=lambda: {"rank": 0, "world_size": None, "device": "cpu"},
        flag=str,
    )
    for step in range(steps + 1):
        for part in parts:
            began = time.thread_time()
            part()
            took[part.__name__] += time.thread_time() - began if step else 0.0
        sampler.stepped()
    sampler.end()
    seen = dict.fromkeys(took, 0.0)
    for sampled in read_samples(tmp_path / "rank00000-1.lens").stacks:
        name = next((place.function for place in sampled.stack if place.function in seen), None)
        if name is not None:
            seen[name] += sum(cpu for _, cpu in sampled.steps.values())
    for name, seconds in took.items():
        assert abs(seen[name] - seconds) <= 3 * math.sqrt(seconds * PERIOD_S) + steps * SWITCH_S, (name, seen, took)


class Writing:
    """A thread that writes for as long as the operations of a step of 60,000 took on a busy host."""

    needed_s, is_done = 15.0, False

    def join(self, timeout):
        self.is_done = timeout >= self.needed_s


def test_a_program_s_end_waits_for_files_that_take_long_to_write(tmp_path):
    sampler = Sampler(tmp_path / "rank00000-1.lens", warmup=1, num_steps=1, head=dict, flag=str)
    sampler._thread = writing = Writing()
    sampler.end()
    assert writing.is_done
