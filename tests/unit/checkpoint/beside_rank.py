"""A rank without torch whose saves are written by a process of its own: what is left when it is killed.

Usage: beside_rank.py FOLDER STRIDE. For n = 1, 1 + STRIDE, ... it copies FOLDER/before to FOLDER/n, forks, and the
child is a rank that saves there twice; at the n-th operation of the second save its writer kills it. It ends when a
rank lives. Orphans become children of this process, which so learns how each writer ended. Prints their statuses.
"""

import contextlib
import ctypes
import json
import os
import shutil
import signal
import sys
from pathlib import Path

from unit.checkpoint.checkpoint_child import parts
from unit.checkpoint.faulty_writer import KILL_RANK, PlanFile

from emberward.checkpoint import Keep, alone
from emberward.checkpoint._beside import WriterProcess, writer_command
from emberward.checkpoint._memory import SharedMemory
from emberward.checkpoint._save_job import Placed, SaveJob
from emberward.recipe import ReadBack

MAX_OPERATIONS = 200
LIMIT_S = 200
PR_SET_CHILD_SUBREAPER = 36
"""prctl(2), include/uapi/linux/prctl.h."""


class BareRank:
    """The only rank of a run, with a writer started by `command`."""

    def __init__(self, command: tuple[str, ...] | None = None) -> None:
        self.memory = SharedMemory()
        self.process = WriterProcess(self.memory, command or writer_command())

    def save(self, root: Path, step: int, seed: int) -> None:
        """The save that `checkpoint_child.save_once` makes. Raises what it raises, and K108."""
        given, offset, placed = parts(step, seed), 0, []
        area = self.memory.take(sum(-(-part.bits.nbytes // 64) * 64 for part in given))
        for part in given:
            area[offset : offset + part.bits.nbytes] = part.raw()
            placed.append(
                Placed(name=part.name, dtype=part.dtype, global_shape=part.global_shape, box=part.box, offset=offset)
            )
            offset += -(-part.bits.nbytes // 64) * 64
        job = SaveJob(
            root=root,
            step=step,
            placed=tuple(placed),
            meta={"seed": seed},
            rank=0,
            world_size=1,
            keep=Keep(last=1),
            read_back=ReadBack.FULL,
            memory_bytes=offset,
            memory_generation=self.memory.generation,
            patience_s=10.0,
        )
        self.process.save(job, alone)


def _rank(root: Path, plan: PlanFile, at: int, until: int) -> None:
    """Saves twice. The second time its writer kills it, while a data worker that it forked holds all it had open."""
    rank = BareRank(plan.command)
    rank.save(root, 15, 1)
    if os.fork() == 0:
        os.read(until, 1)
        os._exit(0)
    plan.set(KILL_RANK, at)
    rank.save(root, 20, 2)
    rank.process.close()


def _one(root: Path, plan: PlanFile, at: int) -> tuple[bool, int | None]:
    """Whether the rank was killed, and the status with which its writer ended by itself."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write)
        try:
            _rank(root, plan, at, read)
        finally:
            os._exit(0)
    os.close(read)
    _, status = os.waitpid(child, 0)
    writer = os.wait()[1] if os.WIFSIGNALED(status) else None  # the data worker waits for us: this is the writer
    os.close(write)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    return os.WIFSIGNALED(status), writer


def main(folder: Path, stride: int) -> list[int]:
    """The status of each writer whose rank was killed; the last rank lives."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.alarm(LIMIT_S)
    statuses = []
    for at in range(1, MAX_OPERATIONS, stride):
        root = folder / str(at)
        shutil.copytree(folder / "before", root)
        was_killed, status = _one(root, PlanFile(folder / f"plan-{at}.json"), at)
        if not was_killed:
            return statuses
        assert status is not None
        statuses.append(status)
    raise AssertionError("no rank lived")


if __name__ == "__main__":
    json.dump(main(Path(sys.argv[1]), int(sys.argv[2])), sys.stdout)
