"""A program whose ranks do not run the same code. ``python skew.py NAME FOLDER SECONDS``."""

import importlib
import os
import sys

import torch
import torch.distributed as dist
from job import FOLDER, main, say, work

HERE = FOLDER / f"host{os.environ['RANK']}"


def installed(name, text):
    """A module of the program as it lies on this rank's host."""
    HERE.mkdir(parents=True, exist_ok=True)
    (HERE / f"{name}.py").write_text(text)
    sys.path.insert(0, str(HERE))
    return importlib.import_module(name)


RATES = installed("rates", f"RATE = {0.02 if os.environ['RANK'] == '3' else 0.01}\n")


def version_skew(rank, world):
    say("fault")
    x = torch.ones(64, 64)
    for _ in range(150):
        work(x * RATES.RATE)
        dist.all_reduce(x)


if __name__ == "__main__":
    main(globals())
