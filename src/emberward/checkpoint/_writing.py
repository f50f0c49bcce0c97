"""The process that writes one rank's saves: it lives as long as the rank, has no torch, and takes idle processors.

[Note: writer process]
A thread of the rank would take the interpreter's lock from the training, and its priority could not be lowered alone
for what numpy and the kernel do for it. The process is started once (`_beside.py`) with the rank's own ``sys.path`` and
nothing of ``site``. It maps the copy that the rank makes, and does the save on it as a rank does (`_save.py`); where
the ranks must agree it asks its rank, which alone is on the network.
It ends with its rank, whatever ends that: by the end of file on its socket, which a thread waits for at all times, and
by the kernel's word (PR_SET_PDEATHSIG) where another process still holds the other end. Signals that a launcher or a
terminal sends to all are the rank's business. A death in the middle of a save is as harmless as that of the rank.
"""

import contextlib
import ctypes
import mmap
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from emberward.checkpoint._pace import Idle
from emberward.checkpoint._save import Saved, save_parts
from emberward.checkpoint._save_job import Answer, Done, Hurry, Line, Problem, SaveJob, Vote
from emberward.checkpoint._storage import Disk, Storage

NAME = "emberward-save"
_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
"""prctl(2), include/uapi/linux/prctl.h."""
_LEFT_TO_THE_RANK = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


class _GivenUp(Exception):
    """The ranks could not agree: the rank knows why."""


class Writer:
    """Does one job after the other. `serve` it."""

    def __init__(self, line: Line, memory: int, storage: Storage) -> None:
        self._line = line
        self._memory = memory
        self._storage = storage
        self._pace = Idle()
        self._heard: queue.SimpleQueue[SaveJob | Answer] = queue.SimpleQueue()
        self._generation = -1
        self._mapped: NDArray[np.uint8] = np.empty(0, dtype=np.uint8)

    def serve(self) -> None:
        """Never returns: the process ends when its rank has gone or hangs up."""
        threading.Thread(target=self._listen, name="listen", daemon=True).start()
        while True:
            save_job = self._heard.get()
            assert isinstance(save_job, SaveJob)
            began_s = time.process_time()
            saved, problem = None, None
            try:
                saved = self._save(save_job)
            except Exception as error:  # noqa: BLE001 (the rank raises it, or writes it down)
                problem = Problem.of(error)
            self._line.send(
                Done(
                    saved=saved,
                    problem=problem,
                    cpu_s=time.process_time() - began_s,
                    is_urgent=self._pace.is_urgent,
                )
            )

    def _listen(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                said = self._line.recv()
                match said:
                    case Hurry():
                        self._pace.hurry()
                    case SaveJob():
                        self._pace.begin(said.patience_s)  # here: a word to hurry may follow at once
                        self._heard.put(said)
                    case _:
                        self._heard.put(said)
        os._exit(0)

    def _save(self, save_job: SaveJob) -> Saved:
        memory = self._map(save_job)
        return save_parts(
            save_job.root,
            step=save_job.step,
            parts=lambda: [placed.part(memory) for placed in save_job.placed],
            meta=save_job.meta,
            rank=save_job.rank,
            world_size=save_job.world_size,
            agree=self._agree,
            keep=save_job.keep,
            read_back=save_job.read_back,
            storage=self._storage,
            pace=self._pace,
        )

    def _agree(self, is_well: bool) -> bool:
        self._line.send(Vote(is_well=is_well))
        answer = self._heard.get()
        assert isinstance(answer, Answer)
        if answer.are_well is None:
            raise _GivenUp
        return answer.are_well

    def _map(self, save_job: SaveJob) -> NDArray[np.uint8]:
        if save_job.memory_generation != self._generation:
            area = mmap.mmap(self._memory, max(save_job.memory_bytes, 1), flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
            self._mapped = np.frombuffer(area, dtype=np.uint8)
            self._generation = save_job.memory_generation
        return self._mapped


def serve(arguments: Sequence[str], storage: Storage) -> None:
    """Serves the rank that started this process with `arguments`: its pid, and the descriptors of line and memory."""
    parent, line, memory = map(int, arguments)
    for number in _LEFT_TO_THE_RANK:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _LEFT_TO_THE_RANK)
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_SET_NAME, NAME.encode(), 0, 0, 0)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        return
    Writer(Line(line), memory, storage).serve()


def main() -> None:
    """The process's program."""
    serve(sys.argv[-3:], Disk(is_direct=True))
