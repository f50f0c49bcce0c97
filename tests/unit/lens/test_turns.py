"""Programs that end no step: the turns of their loop, seen from beside."""

import dataclasses
import json
import time

import pytest
import torch

from emberward.cli._profile import _samples_of
from emberward.findings import Cause
from emberward.lens import Sources, profile_of, read_samples
from emberward.report import RunFolder
from emberward.sources._turns import TurnWatch

TURNS = 44
"""Of which a fifth to a half shows no part to the looks, one in 6 ms: these are one with the next."""
STALL_S, WORK_S = 0.02, 0.002
HEAD = {"rank": 0, "world_size": None, "device": "cpu"}


def stall():
    time.sleep(STALL_S)


def part():
    until = time.monotonic() + WORK_S
    while time.monotonic() < until:
        pass


def search():
    """Parts of a turn lie in a loop of their own."""
    for _ in range(TURNS):
        for _ in range(4):
            part()
            part()
        stall()


def turn():
    part()
    part()
    part()
    part()
    stall()


def one_call_a_turn():
    for _ in range(TURNS):
        turn()


def watched(program, folder, *, dismissed=False):
    watch = TurnWatch(lambda: folder / "rank.lens", warmup=3, num_steps=50, head=lambda: HEAD, flag=lambda: "")
    program()
    if dismissed:
        watch.dismiss()
    watch.end()
    return folder / "rank.lens"


class Slow(torch.nn.Module):
    def forward(self, x):
        part()
        part()
        return x


@torch.no_grad()
def evaluate():
    model, total = Slow(), 0.0
    for _ in range(TURNS):
        total += float(model(torch.ones(2)).sum())
        stall()
    return total


@pytest.mark.parametrize(("program", "parts"), [(search, 8), (one_call_a_turn, 4)])
def test_a_turn_of_the_outermost_loop_is_a_step(program, parts, tmp_path):
    rank = read_samples(watched(program, tmp_path))
    assert TURNS - 18 <= rank.num_steps <= TURNS - 3
    step_s = STALL_S + parts * WORK_S
    assert 0.9 * step_s <= rank.measured_s / rank.num_steps <= 3 * step_s
    assert rank.loop[-1][1] == program.__name__
    (found,) = [each for each in profile_of([rank], Sources(), asked_warmup=3).findings if each.code == "P101"]
    line = stall.__code__.co_firstlineno + 1
    assert (found.cause, found.site) == (Cause.SLEEP, f"{__file__}:{line}")
    assert 1000 * STALL_S * 0.7 <= found.cost_ms_per_step <= 3000 * STALL_S


def test_a_forward_is_the_work_of_a_program_that_evaluates(tmp_path):
    rank = dataclasses.replace(read_samples(watched(evaluate, tmp_path)), by_turns=True)
    found = profile_of([rank], Sources(), asked_warmup=3).findings
    assert [each.cause for each in found if each.code == "P101"] == [Cause.SLEEP]
    trains = dataclasses.replace(rank, by_turns=False)
    assert Cause.EVAL in [each.cause for each in profile_of([trains], Sources(), asked_warmup=3).findings]


def test_of_a_program_that_ends_steps_or_makes_few_turns_nothing_is_kept(tmp_path):
    assert not watched(one_call_a_turn, tmp_path, dismissed=True).exists()
    assert not watched(stall, tmp_path).exists()


def test_beside_a_process_that_ends_steps_one_that_turns_in_a_loop_is_a_helper(tmp_path):
    (tmp_path / "lens").mkdir()
    for pid, by_turns, began_ns in ((1, False, 0), (2, True, 10**9)):
        head = {
            **HEAD, "form": 1, "pid": pid, "warmup": 0, "is_last": True, "period_ns": 5_000_000, "first_step": 0,
            "bounds_ns": [began_ns, began_ns + 10**8], "queue_ns": 0, "has_cpu_time": True, "loop": [], "outputs": [],
            "by_turns": by_turns,
        }  # fmt: skip
        path = tmp_path / "lens" / f"rank00000-{pid}.lens"
        path.write_text("".join(json.dumps(line) + "\n" for line in (head, {"end": True})))
    chosen, _ = _samples_of(RunFolder(path=tmp_path))
    assert [rank.pid for rank in chosen] == [1]
    (tmp_path / "lens" / "rank00000-1.lens").unlink()
    chosen, _ = _samples_of(RunFolder(path=tmp_path))
    assert [rank.pid for rank in chosen] == [2]
