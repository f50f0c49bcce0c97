"""At whose cost the heavy work of a save is done: the caller's, or only that of idle processors until it is urgent.

[Note: idle work]
A process that writes beside the training hands its work to a thread under SCHED_IDLE (sched(7)): such a thread runs
when no other wants the processor, and is put off at once when one does; its disk requests are idle ones too
(block/ioprio: the class follows the policy). Work is cut into pieces of some milliseconds, and urgent ones are done by
the ordinary thread that hands them out, because without a privilege a thread cannot leave SCHED_IDLE (sched(7),
RLIMIT_NICE). Where it can, the piece under way is hurried too: it holds the interpreter's lock at times, and gets 3 of
1000 shares of a busy processor, of an overcrowded one far less.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

_T = TypeVar("_T")

SPAN_BYTES = 4 << 20
"""Bytes of a save that are worked on in one piece: 1 to 2 ms for each checksum."""


class Pace(Protocol):
    """Does pieces of work."""

    def do(self, work: Callable[[], _T]) -> _T:
        """What `work` returns or raises, when it is done. Blocks."""
        ...


class AtOnce:
    """Does the work in the caller's thread."""

    def do(self, work: Callable[[], _T]) -> _T:
        """What `work` returns or raises."""
        return work()


AT_ONCE = AtOnce()


class Idle:
    """Does the work on idle processors until it becomes urgent. See [Note: idle work]."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="idle")
        self._is_urgent = threading.Event()
        self._until_s = 0.0
        self._thread_id = self._thread.submit(threading.get_native_id).result()

    @property
    def is_urgent(self) -> bool:
        """Whether the work is done at ordinary priority now."""
        return self._is_urgent.is_set() or time.monotonic() >= self._until_s

    def begin(self, patience_s: float) -> None:
        """From now on idle processors must do, for `patience_s`."""
        self._is_urgent.clear()
        self._until_s = time.monotonic() + patience_s
        if patience_s > 0:
            self._set_policy("SCHED_IDLE")

    def hurry(self) -> None:
        """Somebody waits: what is left is done at ordinary priority. From any thread; does not block."""
        self._is_urgent.set()
        self._set_policy("SCHED_OTHER")

    def do(self, work: Callable[[], _T]) -> _T:
        """What `work` returns or raises."""
        if self.is_urgent:
            return work()
        piece = self._thread.submit(work)
        try:
            return piece.result(max(self._until_s - time.monotonic(), 0.0))
        except TimeoutError:
            if piece.done():
                raise  # the work's own
            self.hurry()
            return piece.result()

    def _set_policy(self, name: str) -> None:
        # Where it is refused, or not known, the thread stays as it is.
        with contextlib.suppress(OSError, AttributeError):
            os.sched_setscheduler(self._thread_id, getattr(os, name), os.sched_param(0))
