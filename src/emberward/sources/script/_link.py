"""A rank's end of the pipe to the lock-step server: its calls, its waits, and the values that come back. No torch."""

import os
import pickle
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

from emberward.sources.script._guard import RefusedError

MAX_FREE_CALLS = 20_000
"""Calls that a rank may make while it runs free."""


class FreeEnough(BaseException):
    """Ends a rank that has run free long enough."""


def _no_site() -> None:
    """None: nobody looks for lines."""


class Link:
    """This rank's end of the pipe to the lock-step server. Threads may share it. See `_lock_step.py` [Note:
    lock-step]."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._pid = os.getpid()
        self._turn = threading.Condition()
        self._is_read = False
        self._num_calls = 0
        self._finish: dict[int, Callable[[Sequence[Any]], None]] = {}
        self._done: set[int] = set()
        self.is_free = False
        self._num_free = 0
        self.freed_at: str | None = None
        """Where this rank waited when it was set free."""
        self.is_waiting = False
        """Whether the main thread waits for a call."""
        self._last_s = (time.monotonic(), time.process_time())
        self.find_site: Callable[[], Any] = _no_site

    def start(self, kind: str, *facts: Any, finish: Callable[[Sequence[Any]], None]) -> int:
        """Sends a call; `finish` is given the others' parts when they are there. Does not block."""
        if os.getpid() != self._pid:
            raise RefusedError("refused while the script is examined: a call of a group from a process of a rank")
        with self._turn:
            self._last_s = (time.monotonic(), time.process_time())
            number = self._num_calls
            self._num_calls += 1
            if self.is_free:
                self._num_free += 1
                if self._num_free > MAX_FREE_CALLS:
                    raise FreeEnough
                self._done.add(number)
                return number
            self._finish[number] = finish
            self._pipe.send_bytes(pickle.dumps((kind, number, *facts)))
            return number

    def wait(self, number: int) -> None:
        """Blocks until the call has its values, or the rank runs free."""
        with self._turn:
            is_main = threading.current_thread() is threading.main_thread()
            if number not in self._done and not self.is_free:
                self._pipe.send_bytes(pickle.dumps(("wait", number, is_main)))
            while number not in self._done and not self.is_free:
                self.is_waiting = self.is_waiting or is_main
                self._take()
            if is_main:
                self.is_waiting = False
                self._last_s = (time.monotonic(), time.process_time())

    def is_done(self, number: int) -> bool:
        """Whether the call has its values. Does not block."""
        with self._turn:
            while not self.is_free and not self._is_read and self._pipe.poll(0.001):
                self._take()
            return self.is_free or number in self._done

    def _take(self) -> None:
        """Reads one message, or waits for the thread that reads; the turn is free meanwhile, and held again after."""
        if self._is_read:
            self._turn.wait()
            return
        self._is_read = True
        self._turn.release()
        try:
            message = pickle.loads(self._pipe.recv_bytes())
        finally:
            self._turn.acquire()
            self._is_read = False
            self._turn.notify_all()
        if message[0] == "free":
            self.is_free = True
            site = self.find_site()
            self.freed_at = None if site is None else str(site)
            return
        _, number, parts = message
        self._done.add(number)
        self._finish.pop(number)(parts)

    def since_last_call(self) -> tuple[float, float]:
        """Seconds since the last call began or got its values, and the processor time that was used in them."""
        return time.monotonic() - self._last_s[0], time.process_time() - self._last_s[1]

    def end(self, report: dict[str, Any]) -> None:
        """The rank's last message."""
        with self._turn:
            self._pipe.send_bytes(pickle.dumps(("end", report)))
