"""Saves that are written beside the main thread: one at a time, as jobs of a lane.

[Note: background save]
The main thread copies what is to be saved into host memory and goes on. A lane runs the same protocol as a save
in the foreground (`_save.py` [Note: order of a save]) on the copy. Its agreements never touch the communicators of the
training: the caller gives an agreement for each save, over a store. So nothing that a background save does can come
between the collectives of a step, on any rank, and no decision of the training depends on when it ends.
At most one is in flight: the next one waits for it, and says how long.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

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


class Jobs(Protocol):
    """Does jobs one after the other beside the caller: a lane."""

    def submit(self, job: Callable[[], None], /) -> object:
        """Queues a job, which must not raise."""

    def join(self) -> None:
        """Returns when every job is done. Blocks."""


class Flight:
    """The save in flight, if any, and how the last one ended."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._landed = threading.Event()
        self._step: int | None = None
        self._written: Written | None = None

    @property
    def step(self) -> int | None:
        """The step of the save in flight, None when there is none."""
        return None if self._step is None or self._landed.is_set() else self._step

    def launch(self, step: int, save: Callable[[], Saved]) -> None:
        """Starts a save as a job; the one before must have been taken by `land`."""
        assert self._step is None, "one save in flight at a time"
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

        self._jobs.submit(job)

    def after(self, job: Callable[[], None]) -> None:
        """Queues a job, which must not raise, behind the save in flight."""
        self._jobs.submit(job)

    def land(self, *, wait: bool) -> Written | None:
        """How the save ended, told once; None when there is none, or when it is not to be waited for. May block."""
        if self._step is None or not (self._landed.is_set() or wait):
            return None
        self._landed.wait()
        self._step = None
        return self._written

    def close(self) -> None:
        """Returns when its jobs are done. Blocks."""
        self._jobs.join()
