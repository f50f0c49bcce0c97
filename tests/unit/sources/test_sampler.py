"""What the sampler keeps of a thread: against the clock around each line, and of looks that come late."""

import itertools
import math
import sys
import time
from types import SimpleNamespace

import pytest
import torch

from emberward.lens import read_samples
from emberward.sources._sampler import ASK_S, MANY_LOOKS, PERIOD_S, SWITCH_S, Sampler, _ask_s, _moments


@pytest.mark.parametrize(
    ("has_others", "lacked_ns", "asked_s"),
    [(False, 0, ASK_S), (False, 100_000, ASK_S), (True, 0, SWITCH_S), (False, 300_000, SWITCH_S)],
)
def test_the_interpreter_is_asked_for_at_once_where_a_processor_is_free_and_no_other_thread_computes(
    has_others, lacked_ns, asked_s
):
    assert _ask_s(has_others=has_others, lacked_ns=lacked_ns) == asked_s


def test_what_follows_the_wait_the_program_need_not_wait_for(tmp_path):
    sampler = Sampler(tmp_path / "rank.lens", warmup=1, num_steps=2, head=dict, flag=str)
    sampler._switch_s = own_s = sys.getswitchinterval()
    sampler._interval_s = ASK_S
    while_waiting = []

    def waits(timeout):
        del timeout
        while_waiting.append(sys.getswitchinterval())
        return True

    sampler._over = SimpleNamespace(acquire=waits)
    try:
        assert sampler._wait(0)
        assert while_waiting == [pytest.approx(ASK_S)]
        assert sys.getswitchinterval() == pytest.approx(SWITCH_S)
    finally:
        sys.setswitchinterval(own_s)


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

    A look lies at one place of its period of 6 ms, so n looks tell a time to 1 / sqrt(n) of itself, less as neighbours
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


def test_what_was_looked_at_often_is_looked_at_less_often():
    began_ns, length_s = 5_000_000_000, 100.0
    within = lambda moment: moment[0] < began_ns + length_s * 1e9  # noqa: E731
    found = [*itertools.takewhile(within, _moments(began_ns))]
    begins = itertools.accumulate((period for _, period in found), initial=began_ns)
    assert all(begin <= at < begin + period for begin, (at, period) in zip(begins, found, strict=False))
    assert {period for _, period in found[:MANY_LOOKS]} == {PERIOD_S * 1e9}
    assert found[-1][1] == pytest.approx(1e9 * length_s / MANY_LOOKS, rel=0.01)
    # As long as the first thousand took, times what it has grown by: a thousand more for each e of that.
    assert len(found) == pytest.approx(MANY_LOOKS * (1 + math.log(length_s / (MANY_LOOKS * PERIOD_S))), rel=0.01)
