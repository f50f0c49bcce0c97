"""What a stall makes happen besides: its collections, what it frees, what a library's save does to files."""

import csv
import time
from collections import deque
from dataclasses import replace

import pytest
import torch
from unit.lens.stand_ins import STALL_S
from unit.lens.test_stalls import STEPS, line_of, measure, stalls

from emberward.findings import Cause
from emberward.lens import Instruction, RankSamples, Sampled, Sources, tell

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


LOOP = """def batches(texts):
    for text in texts:
        yield encode(text)
for batch in BAR(batches(texts)):
    loss = model(batch)
    loss.backward()
    for row in batches(loss):
        print(row)
"""
BAR = Instruction("/x/site-packages/tqdm/std.py", "__iter__", 1, "package", 9, 9, 4, 9, "FOR_ITER")
MODULE = Instruction("/x/torch/nn/modules/module.py", "_call_impl", 1, "platform", 9, 9, 4, 9, "CALL")
LOADER = Instruction("/x/torch/utils/data/dataloader.py", "__next__", 1, "platform", 9, 9, 4, 9, "CALL")
ENCODES = Instruction("train.py", "batches", 1, "user", 3, 3, 14, 26, "CALL")
FIRST = Instruction("train.py", "<module>", 1, "user", 4, 8, 0, 18, "FOR_ITER")
SECOND = Instruction("train.py", "<module>", 1, "user", 7, 8, 4, 18, "FOR_ITER")


@pytest.mark.parametrize(
    ("stack", "wanted"),
    [
        ((ENCODES, FIRST), Cause.DATA_WAIT),
        ((ENCODES, BAR, FIRST), Cause.DATA_WAIT),
        ((LOADER, BAR, FIRST), Cause.DATA_WAIT),
        ((replace(BAR, function="display"), BAR, FIRST), Cause.LOGGING),
        ((ENCODES, SECOND), None),
        ((ENCODES, MODULE, FIRST), None),
        ((FIRST,), None),
    ],
)
def test_work_for_the_next_turn_of_a_loop_over_batches_is_data_wait_and_no_other_loop_s(stack, wanted):
    sampled = Sampled(stack=stack, flag="", steps={1: (1.0, 1.0)})
    rank = RankSamples(
        rank=0, pid=1, world_size=1, first_step=0, bounds_s=(0.0, 9.0), period_s=0.005, queue_s=0.0, has_cpu_time=True,
        device="cpu", loop=(("train.py", "<module>", 1),), outputs=frozenset(), stacks=(sampled,), is_whole=True,
    )  # fmt: skip
    told = tell(sampled, rank, Sources(lambda file: LOOP))
    assert (None if told is None else (told.cause, told.site)) == (None if wanted is None else (wanted, "train.py:4"))


def test_a_thread_that_gives_the_interpreter_away_at_each_part_of_a_file_is_seen_while_it_reads(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("leaf,kind\n" + "".join(f"leaf{i:05d},{i % 18}\n" for i in range(6000)))
    spent_s = 0.0

    def reads(step):
        nonlocal spent_s
        began_s = time.thread_time()
        with table.open(newline="") as rows:
            kinds = {row["leaf"]: row["kind"] for row in csv.DictReader(rows)}
        spent_s += time.thread_time() - began_s
        time.sleep(0.0002)
        return kinds

    rank = measure(tmp_path, reads)
    inside = [each for each in rank.stacks if any(place.file.endswith("/csv.py") for place in each.stack)]
    at_csv_s = sum(cpu for each in inside for _, cpu in each.steps.values())
    assert at_csv_s > 0.4 * spent_s * rank.num_steps / (STEPS + 2)
