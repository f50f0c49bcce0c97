"""What the campaign of gains stands on: two programs that take turns are measured without the time of the other."""

import sys
from pathlib import Path

import pytest
from in_turns import FIRST_STEPS, SLICE_S, steps_in_turns

TOLD_STEPS = Path(__file__).resolve().parents[2] / "tools" / "told_steps.py"
PROGRAM = """
import sys, time, torch
optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
for step in range(int(sys.argv[2])):
    end = time.thread_time() + float(sys.argv[1]) / 1000
    while time.thread_time() < end:
        pass
    optimizer.step()
open("done", "w").close()
"""


def command(ms: float, steps: int):
    return lambda file: [sys.executable, str(TOLD_STEPS), str(file), "train.py", str(ms), str(steps)]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    return tmp_path


@pytest.mark.thorough
def test_the_steps_of_each_side_are_told_without_the_turns_of_the_other(folder):
    steps = FIRST_STEPS + int(4 * SLICE_S / 0.01)
    slow, fast = steps_in_turns([(folder, command(20, steps)), (folder, command(10, steps))], limit_s=60.0)
    assert slow is not None
    assert fast is not None
    assert 20 <= slow < 30
    assert 10 <= fast < 15
    assert 1.7 < slow / fast < 2.3


@pytest.mark.thorough
def test_a_side_that_fails_has_no_steps_and_lets_the_other_go_on_to_its_end(folder):
    (folder / "other").mkdir()
    (folder / "other" / "train.py").write_text("raise SystemExit(1)")
    failed, _ = steps_in_turns([(folder / "other", command(1, 1)), (folder, command(5, 20))], limit_s=60.0)
    assert failed is None
    assert (folder / "done").exists()
