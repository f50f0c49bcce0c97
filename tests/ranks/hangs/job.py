"""What the programs of this folder share: a start, and a word to the outside when the fault begins."""

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

from emberward.sources import cpu_nccl

FOLDER = Path(sys.argv[2]) if len(sys.argv) > 2 else Path()
SECONDS = float(sys.argv[3]) if len(sys.argv) > 3 else 10.0
BACKEND = "EMBERWARD_TEST_BACKEND"
STEP_S = 0.2
BAD_STEP = 6


def say(what, text=""):
    """Leaves a file that says what happened, and when."""
    path = FOLDER / f"{what}.{os.environ['RANK']}"
    part = FOLDER / f".{path.name}"
    part.write_text(f"{time.time()} {text}")
    part.rename(path)


def work(x):
    """The rank's own part of a step."""
    y = torch.tanh(x @ x.T).sum()
    time.sleep(STEP_S * 0.8)
    # A training reads its loss: there the host waits for a device.
    y.item()
    return y


def main(programs):
    rank = int(os.environ["RANK"])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    backend = os.environ.get(BACKEND, "gloo")
    if backend == cpu_nccl.NAME:
        cpu_nccl.register()
    dist.init_process_group(backend)
    say("begun", str(os.getpid()))
    programs[sys.argv[1]](rank, dist.get_world_size())
    say("left")
    dist.destroy_process_group()
