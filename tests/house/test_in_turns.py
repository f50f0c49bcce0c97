"""What the campaign of gains stands on: two programs that take turns are measured without the time of the other."""

import sys
from pathlib import Path

import pytest
import told_steps
from in_turns import FIRST_STEPS, SLICE_S, Side, steps_in_turns

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


def test_a_step_is_told_without_the_time_in_which_its_program_stood_still(tmp_path):
    file = tmp_path / "0.steps"
    # Two while it loads; then a step a second, and 7 s of standing still within one; one after the other has ended.
    file.write_bytes(b"".join(map(told_steps.FORM.pack, [1.0, 2.0, 11.0, 12.0, 20.0, 21.0, 40.0])))
    side = Side(process=None, file=file, stood=[(2.5, 10.0), (12.5, 19.5)])
    assert side.step_ms(until_s=30.0) == pytest.approx(1000.0)
    assert side.step_ms(until_s=11.5) is None, "one step is none"
    assert Side(process=None, file=file).step_ms(until_s=30.0) is None, "it never took a turn"


@pytest.mark.thorough
def test_two_programs_take_turns_to_their_ends(folder):
    steps = FIRST_STEPS + int(4 * SLICE_S / 0.01)
    slow, fast = steps_in_turns([(folder, command(20, steps)), (folder, command(10, steps))], limit_s=100.0)
    assert slow is not None
    assert fast is not None
    assert slow >= 20, "of processor time alone"
    assert fast >= 10
    assert (folder / "done").exists()


@pytest.mark.thorough
def test_a_side_that_fails_has_no_steps_and_lets_the_other_go_on_to_its_end(folder):
    (folder / "other").mkdir()
    (folder / "other" / "train.py").write_text("raise SystemExit(1)")
    failed, _ = steps_in_turns([(folder / "other", command(1, 1)), (folder, command(5, 20))], limit_s=100.0)
    assert failed is None
    assert (folder / "done").exists()
