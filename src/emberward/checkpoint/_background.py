"""Saves that are written beside the main thread: one at a time, by one thread, over a lane of their own.

[Note: background save]
The main thread copies what is to be saved into host memory and goes on. A thread runs the same protocol as a save in
the foreground (`_save.py` [Note: order of a save]) on the copy. Its agreements never touch the communicators of the
training: the caller gives an agreement for each save, over a store. So nothing that a background save does can come
between the collectives of a step, on any rank, and no decision of the training depends on when it ends.
At most one is in flight: the next one waits for it, and says how long.
"""

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from emberward.checkpoint._save import Saved


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A save that is under way. The caller was held up for `waited_s` by the save of `waited_for`, then `copied_s`.

    `staged_bytes` of host memory hold the copy; they are kept for the next save.
    """

    step: int
    waited_for: int | None
    waited_s: float
    copied_s: float
    staged_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """How a background save ended, `seconds` after it was begun: whole, or with the error of this rank."""

    step: int
    seconds: float
    saved: Saved | None
    error: Exception | None


class Desk:
    """One thread that does jobs in the order in which they are given. It ends with the process if not closed."""

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def give(self, job: Callable[[], None]) -> None:
        """Queues a job, which must not raise. Does not block."""
        self._jobs.put(job)

    def close(self) -> None:
        """Returns when every job is done. Blocks."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


class Flight:
    """The save in flight, if any, and how the last one ended."""

    def __init__(self) -> None:
        self._desk: Desk | None = None
        self._landed = threading.Event()
        self._step: int | None = None
        self._written: Written | None = None

    @property
    def step(self) -> int | None:
        """The step of the save in flight, None when there is none."""
        return None if self._step is None or self._landed.is_set() else self._step

    def launch(self, step: int, save: Callable[[], Saved]) -> None:
        """Starts a save on the desk; the one before must have been taken by `land`."""
        assert self._step is None, "one save in flight at a time"
        if self._desk is None:
            self._desk = Desk("emberward-save")
        self._step, self._written = step, None
        self._landed.clear()
        began_s = time.monotonic()

        def job() -> None:
            saved, problem = None, None
            try:
                saved = save()
            except Exception as error:  # noqa: BLE001 (carried to the thread that asks how it ended)
                problem = error
            self._written = Written(step=step, seconds=time.monotonic() - began_s, saved=saved, error=problem)
            self._landed.set()

        self._desk.give(job)

    def after(self, job: Callable[[], None]) -> None:
        """Queues a job, which must not raise, behind the save in flight."""
        if self._desk is None:
            self._desk = Desk("emberward-save")
        self._desk.give(job)

    def land(self, *, wait: bool) -> Written | None:
        """How the save ended, told once; None when there is none, or when it is not to be waited for. May block."""
        if self._step is None or not (self._landed.is_set() or wait):
            return None
        self._landed.wait()
        self._step = None
        return self._written

    def close(self) -> None:
        """Ends the thread when its jobs are done. Blocks."""
        if self._desk is not None:
            self._desk.close()
            self._desk = None
