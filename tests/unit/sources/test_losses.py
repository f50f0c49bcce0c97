"""Which losses a program's own logs tell: those that are there, and none from text that has none."""

import csv
import json
import math
import struct
import subprocess
import sys
import zlib

import pytest

from emberward.sources.attach import SITE_FOLDER
from emberward.sources.losses import LossReader, loss_name, losses_in

LINES = {
    "step 10 loss 2.3": ("loss", 2.3, 10),
    "step 10: loss=2.3, lr=1e-3": ("loss", 2.3, 10),
    "iter 10: loss 2.3456, time 20.1ms, mfu 3.2%": ("loss", 2.3456, 10),
    " iteration   100/ 5000 | learning rate: 1.0E-04 | lm loss: 2.305000E+00 | loss scale: 65536.0 |": (
        "lm loss",
        2.305,
        100,
    ),
    "Epoch: [0][ 10/5005]\tTime  0.3 ( 0.4)\tLoss 6.9e+00 (6.95e+00)\tAcc@1 0.4": ("loss", 6.9, 10),
    "Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.300039": ("loss", 2.300039, 640),
    "{'loss': 2.31, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 0.02}": ("loss", 2.31, None),
    '{"step": 3, "train_loss": 2.5}': ("train loss", 2.5, 3),
    "Epoch 0:  37%|███▋      | 37/100 [00:10<00:17,  3.61it/s, train_loss=2.31]": ("train loss", 2.31, 37),
    "2026-11-23 10:00:00,123 INFO root step 4 loss=2.3": ("loss", 2.3, 4),
    "INFO:root:loss: 2.31": ("loss", 2.31, None),
    "Loss at step 100: 2.31": ("loss", 2.31, 100),
    "step: 7, loss: tensor(2.31, grad_fn=<MeanBackward0>)": ("loss", 2.31, 7),
    "\x1b[32mstep\x1b[0m 5 | \x1b[1mloss\x1b[0m 2.2": ("loss", 2.2, 5),
    "train step 5 box_loss 0.3 cls_loss 0.2 loss 0.5": ("loss", 0.5, 5),
    "step 8, 120 ms and loss 2.2": ("loss", 2.2, 8),
}
NO_LOSS = (
    "packet loss 3 at step 4",
    "packet loss: 3.5",
    "step 4 loss scale 65536",
    "loss_scale: 65536.0 step 3",
    "step 3 loss weight 0.5",
    "stop-loss 4.5 at step 3",
    "best loss: 1.2 at step 5",
    "using CrossEntropyLoss(weight=3.0)",
    "loss = 0.5 * (a + b)",
    "loss: 3",
    "step 3 loss 2.3%",
    "step 3: 5 losses 2.3",
    "step 3 loss of 3.5 packets",
    "step 3: loss 2.3dB",
    "loss function 3.0",
    "step 3 no loss 2.0",
    "early stopping: loss: 2.3/2.1",
    'File "loss.py", line 3, in loss',
    "lossless 4.0 step 3",
    "step 10 Loss of signal: 4.0 dB",
    "loss 2.5",
    "x" * 3000 + " step 3 loss 2.5",
)


@pytest.mark.parametrize("line", LINES)
def test_a_logged_loss_is_read_with_its_step(line):
    (found,) = losses_in(line)
    assert (found.name, found.value, found.step) == LINES[line]
    assert not found.is_evaluation


@pytest.mark.parametrize("line", NO_LOSS)
def test_text_that_is_no_loss_gives_none(line):
    assert losses_in(line) == ()


def test_losses_of_an_evaluation_are_told_from_those_of_the_training():
    train, val = losses_in("step 250: train loss 1.9000, val loss 2.1000")
    assert (train.is_evaluation, val.is_evaluation, val.value, val.step) == (False, True, 2.1, 250)
    (found,) = losses_in("Test set: Average loss: 4.7000, Accuracy: 9/10 (90%)")
    assert (found.name, found.is_evaluation) == ("test average loss", True)
    (found,) = losses_in("step 10 loss nan")
    assert math.isnan(found.value)


def test_names_of_logged_values():
    assert loss_name("train/loss") == ("train loss", False)
    assert loss_name("Loss/val") == ("loss val", True)
    assert loss_name("trainLoss") == ("train loss", False)
    assert (
        loss_name("train/loss_scale") is loss_name("loss/box_reg") is loss_name("lr") is loss_name("aux_loss") is None
    )


class Job:
    """A ring folder into which processes noted, and its reader."""

    def __init__(self, folder):
        self.folder = folder
        self.reader = LossReader(folder)

    def note(self, pid=1, number=1, rank=0, **note):
        with (self.folder / f"captured-{pid}-{number}.jsonl").open("a") as file:
            file.write(json.dumps({"rank": rank, "time_unix": 0.0, **note}) + "\n")

    def say(self, *lines, **who):
        for line in lines:
            self.note(line=line, **who)

    def steps(self):
        return [(each.step, each.value) for each in self.reader.poll()]


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path)


def test_batches_that_begin_anew_in_each_epoch_go_on(job):
    job.say(*(f"Epoch {epoch} [{batch}/40] Loss: 2.5" for epoch in (1, 2, 3) for batch in (0, 20)))
    assert [step for step, _ in job.steps()] == [0, 20, 40, 60, 80, 100]


def test_epochs_of_unknown_length_follow_the_last_value_and_a_resumed_run_goes_back(job):
    job.say(
        "epoch 0 step 0 loss 4.5", "epoch 0 step 30 loss 3.5", "epoch 1 step 0 loss 2.5", "epoch 1 step 30 loss 2.0"
    )
    assert [step for step, _ in job.steps()] == [0, 30, 31, 61]
    job.say("epoch 0 step 30 loss 3.5")
    assert job.steps() == [(30, 3.5)]


def test_steps_that_go_back_without_an_epoch_stay_what_they_are(job):
    job.say("step 100 loss 2.5", "step 50 loss 2.6")
    assert job.steps() == [(100, 2.5), (50, 2.6)]


def test_values_without_a_step_are_counted_on_over_attempts(job):
    job.reader.counted["loss, printed by rank 0, by value"] = 7
    job.say("loss: 2.5", "loss: 2.4")
    assert job.steps() == [(8, 2.5), (9, 2.4)]


def test_of_several_ranks_that_print_alike_the_lowest_counts_and_segments_that_were_read_go(job):
    job.say("step 1 loss 2.5", pid=20, rank=1)
    assert job.steps() == [(1, 2.5)]
    job.say("step 1 loss 2.25", pid=10, rank=0)
    job.say("step 2 loss 2.0", pid=20, rank=1)
    assert job.steps() == [(1, 2.25)]
    job.say("step 2 loss 2.125", pid=10, number=2)
    assert job.steps() == [(2, 2.125)]
    assert [path.name for path in sorted(job.folder.iterdir())] == ["captured-10-2.jsonl", "captured-20-1.jsonl"]


def record(data):
    head = struct.pack("<Q", len(data))
    return head + struct.pack("<I", zlib.crc32(head)) + data + struct.pack("<I", zlib.crc32(data))


def test_logs_are_followed_as_they_grow_and_what_stood_in_them_before_is_not_ours(job, tmp_path):
    table = tmp_path / "log.csv"
    with table.open("w") as file:
        csv.writer(file).writerows([["epoch", "step", "loss", "loss_scale"], [0, 1, 9.5, 65536]])
    job.note(file=str(table), at=table.stat().st_size)
    assert job.steps() == []
    with table.open("a") as file:
        file.write("0,2,2.5,65536\n0,3,")
    assert job.steps() == [(2, 2.5)]
    with table.open("a") as file:
        file.write("2.25,65536\n0,4,nan,1\n")
    assert job.steps() == [(3, 2.25), (4, None)]
    table.write_text("step,loss\n1,8.0\n")
    assert job.steps() == [(1, 8.0)]
    lines = tmp_path / "log.jsonl"
    lines.write_text('{"step": 5, "train": {"loss": 2.0}, "val": {"loss": 3.0}, "lr": 0.1}\n[1]\n{"step": 6, "lo')
    job.note(file=str(lines), at=0)
    found = job.reader.poll()
    assert [(each.name, each.step, each.value, each.is_evaluation) for each in found] == [
        ("train loss", 5, 2.0, False),
        ("val loss", 5, 3.0, True),
    ]


def test_files_that_are_damaged_or_gone_give_nothing(job, tmp_path):
    for name in ("a.csv", "events.out.tfevents.1.host", "run-1.wandb", "b.jsonl", "c.log"):
        path = tmp_path / name
        path.write_bytes(bytes(range(256)) * 300)
        job.note(file=str(path), at=0)
    job.note(file=str(tmp_path / "never.csv"), at=0)
    (tmp_path / "captured-9-1.jsonl").write_bytes(b'\xff\xfe\n[]\n{"line": 3}\n{"line": "step 3 lo')
    assert job.steps() == []
    assert job.steps() == []


def test_a_file_of_tensorboards_writer_is_read(job, tmp_path):
    writer = pytest.importorskip("torch.utils.tensorboard").SummaryWriter(str(tmp_path / "tb"))
    for step in range(3):
        writer.add_scalar("Loss/train", 2.5 - step / 4, step)
        writer.add_scalar("lr", 0.1, step)
        writer.add_scalar("Loss/val", 3.0, step)
    writer.close()
    (path,) = (tmp_path / "tb").iterdir()
    job.note(file=str(path), at=0)
    found = job.reader.poll()
    assert [(each.step, each.value) for each in found if not each.is_evaluation] == [(0, 2.5), (1, 2.25), (2, 2.0)]
    assert {each.name for each in found} == {"loss train", "loss val"}


def wandb_file(rows):
    """A file as W&B 0.31 writes it, whose layout was compared with a real one; a record over the end of a block too."""

    def part(number, data):
        return bytes([number << 3 & 0x7F | 2]) + bytes([len(data)]) if number < 16 else b"\x82\x01" + bytes([len(data)])

    out = bytearray(b":W&B\xe1\xbe\x00")
    for row in rows:
        items = b""
        for key, value in row.items():
            text = json.dumps(value).encode()
            item = part(2, key.encode()) + key.encode() + part(16, text) + text
            items += part(1, item) + item
        left = part(2, items) + items
        kind = 1
        while True:
            room = (32 << 10) - len(out) % (32 << 10)
            if room < 7:
                out += bytes(room)
                continue
            now, left = left[: room - 7], left[room - 7 :]
            kind = {(1, False): 1, (1, True): 2, (2, True): 3, (2, False): 4, (3, True): 3, (3, False): 4}[
                kind, bool(left)
            ]
            out += struct.pack("<IHB", zlib.crc32(now), len(now), kind) + now
            if not left:
                break
    return bytes(out)


def test_a_file_of_wandb_is_read_over_its_blocks(job, tmp_path):
    folder = tmp_path / "wandb" / "offline-run-1"
    (folder / "logs").mkdir(parents=True)
    job.note(file=str(folder / "logs" / "debug.log"), at=0)
    assert job.steps() == []
    rows = [{"_step": step, "train/loss": 2.5, "note": "x" * 60} for step in range(1000)]
    data = wandb_file(rows)
    path = folder / "run-1.wandb"
    path.write_bytes(data[:40_000])
    found = [*job.steps(), *job.steps()]
    path.write_bytes(data)
    found += job.steps()
    assert found == [(step, 2.5) for step in range(1000)]


def test_the_capture_notes_lines_and_logs_and_passes_all_on(tmp_path):
    program = (
        "import sys\nsys.path.insert(0, sys.argv[2])\nimport _capture\n"
        "_capture.start(sys.argv[1], {'RANK': '3'})\n_capture.start(sys.argv[1], {})\n"
        "print('step', 1, 'loss', 2.5)\nprint('nothing')\n"
        "sys.stderr.write('bar loss=2.0\\rbar loss=1.5\\n')\n"
        "for _ in range(2):\n    open(sys.argv[1] + '/log.csv', 'a').close()\n"
        "open(sys.argv[1] + '/data.bin', 'w').close()\nopen(sys.argv[1] + '/log.csv').close()\n"
        "import os\nif os.fork() == 0:\n"
        "    print('step 2 loss 9.5')\n    sys.stdout.flush()\n    os._exit(0)\nos.wait()\n"
    )
    (tmp_path / "log.csv").write_text("step,loss\n")
    words = [sys.executable, "-S", "-c", program, str(tmp_path), str(SITE_FOLDER.parent)]
    done = subprocess.run(words, capture_output=True, check=True)
    assert done.stdout.startswith(b"step 1 loss 2.5\nnothing\n")
    assert done.stderr == b"bar loss=2.0\rbar loss=1.5\n"
    (noted,) = tmp_path.glob("captured-*-1.jsonl")
    notes = [json.loads(line) for line in noted.read_text().splitlines()]
    assert [note.get("line") for note in notes] == ["step 1 loss 2.5", "bar loss=2.0", "bar loss=1.5", None]
    assert notes[-1]["file"] == str(tmp_path / "log.csv")
    assert (notes[-1]["at"], {note["rank"] for note in notes}) == (10, {3})
