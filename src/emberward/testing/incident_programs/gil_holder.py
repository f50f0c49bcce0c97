"""Ranks that reduce a tensor each step; a native call of one does not return, and it keeps the interpreter's lock.

``gil_holder.py RANK`` has RANK do so in its 41st step; without an argument nobody does. Stands for an extension that
waits without releasing the lock: no thread of that process runs Python any more, its watchdog neither.
"""

import ctypes
import sys
import time

import torch
import torch.distributed as dist

STEPS, BAD_STEP, STEP_S = 80, 40, 0.02
native = ctypes.PyDLL(None)
"""Unlike CDLL, its calls keep the interpreter's lock."""


def read_clock(is_stuck):
    native.sleep(20 if is_stuck else 0)


def main(victim):
    dist.init_process_group("gloo")
    weights = torch.zeros(64)
    for step in range(STEPS):
        read_clock(is_stuck=step == BAD_STEP and dist.get_rank() == victim)
        time.sleep(STEP_S)
        dist.all_reduce(weights)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else None)
