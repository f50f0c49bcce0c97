"""What a stall makes happen besides: its collections, what it frees, what a library's save does to files."""

from collections import deque

import pytest
import torch
from unit.lens.stand_ins import STALL_S
from unit.lens.test_stalls import STEPS, line_of, measure, stalls

from emberward.findings import Cause

SCORES, ROWS = torch.rand(400, 1000), deque(maxlen=2)
KEPT = deque(maxlen=2)

LIBRARY = {}
exec(
    compile(
        "import time\n\ndef _save_checkpoint(seconds):\n    end = time.monotonic() + seconds\n"
        "    while time.monotonic() < end:\n        pass\n\n_saved_tensors = _save_checkpoint.__class__(\n"
        "    _save_checkpoint.__code__.replace(co_name='_saved_tensors'), globals())\n",
        "/usr/lib/python3/site-packages/trainers/trainer.py",
        "exec",
    ),
    LIBRARY,
)


def keeps_numbers(step):
    ROWS.append(SCORES.tolist())  # here


def keeps_tensors(step):
    for _ in range(40):
        KEPT.append(SCORES.clamp(0, 0.5).sqrt())
    return KEPT[0].shape


def saves_by_a_library(step):
    LIBRARY["_save_checkpoint"](STALL_S)  # here


def works_in_a_library(step):
    LIBRARY["_saved_tensors"](STALL_S)


def test_what_a_list_frees_of_older_reads_is_the_cost_of_the_read(tmp_path):
    rank = measure(tmp_path, keeps_numbers)
    (found,) = (each for each in stalls(rank) if each.cause is not Cause.GC)
    assert (found.cause, found.site) == (Cause.TOLIST, f"{__file__}:{line_of(keeps_numbers)}")
    seen = [each for each in rank.stacks if any(place.function == "keeps_numbers" for place in each.stack)]
    spent_s = sum(wall for each in seen for step, (wall, _) in each.steps.items()) / STEPS
    assert found.cost_ms_per_step == pytest.approx(1000 * spent_s, rel=0.1)


def test_what_a_library_does_besides_in_its_save_is_the_save(tmp_path):
    (found,) = stalls(measure(tmp_path, saves_by_a_library))
    assert (found.cause, found.site) == (Cause.SAVE_IN_STEP, f"{__file__}:{line_of(saves_by_a_library)}")


@pytest.mark.parametrize("work", [keeps_tensors, works_in_a_library])
def test_the_same_of_tensors_and_of_other_functions_is_no_stall(work, tmp_path):
    assert stalls(measure(tmp_path, work)) == []
