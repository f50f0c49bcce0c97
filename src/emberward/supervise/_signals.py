"""Signals that a supervisor passes on to the command it started, as if it were not there.

[Note: whose signal]
The command stays in our process group, so that it may read the terminal. A Ctrl-C of that terminal then reaches it
without us, and a second one from us would be a second Ctrl-C: torchrun, for one, gives up its orderly end then. So
signals are blocked and taken with ``sigtimedwait``, which tells the kernel's own (``SI_KERNEL``) from those that a
process sent to us alone. A signal that was ignored when we started (nohup, a shell's background) stays ignored in both
of us.
"""

import signal
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from emberward.supervise._policy import StopBy

PASSED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
ASK_TO_STOP = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})
SI_KERNEL = 0x80


@dataclass(slots=True, kw_only=True)
class StopAsked:
    """Who asked to stop, how often by Ctrl-C, and when first (seconds of the monotonic clock); None: nobody."""

    at_s: float | None = None
    by: StopBy | None = None
    num_interrupts: int = 0

    def ask(self, by: StopBy | None) -> None:
        """Notes the first request."""
        if self.at_s is None:
            self.at_s, self.by = time.monotonic(), by


@contextmanager
def stop_signals() -> Iterator[StopAsked]:
    """Notes Ctrl-C, SIGTERM and SIGHUP inside the block instead of ending this process. Only in the main thread."""
    asked = StopAsked()

    def note(number: int, frame: FrameType | None) -> None:
        asked.num_interrupts += number == signal.SIGINT
        asked.ask(StopBy.INTERRUPT if number == signal.SIGINT else StopBy.TERMINATE)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, note) for number in numbers}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """One signal; `is_shared` when the kernel sent it to the whole process group, the command included."""

    number: signal.Signals
    is_shared: bool

    @property
    def asks_to_stop(self) -> bool:
        """Whether whoever sent it wants the job to end."""
        return self.number in ASK_TO_STOP


SLICE_S = 0.05
"""How late a signal is seen at most."""


class SignalDesk:
    """Takes our signals one by one. Only in the main thread. See [Note: whose signal]."""

    def __init__(self) -> None:
        self._numbers = [number for number in PASSED if signal.getsignal(number) is not signal.SIG_IGN]
        self._noted: deque[Taken] = deque()
        self._before: dict[signal.Signals, Any] = {}
        self._mask: set[int] = set()

    def __enter__(self) -> "SignalDesk":
        self._mask = {int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, self._numbers)}
        for number in self._numbers:
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *about: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _note(self, number: int, frame: FrameType | None) -> None:
        """Takes a signal that came while a child was being started, or to a thread that does not hold it back."""
        self._noted.append(Taken(number=signal.Signals(number), is_shared=False))

    @contextmanager
    def passing_on_the_mask(self) -> Iterator[None]:
        """Gives back the mask that we started with inside the block: a child inherits it."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, self._numbers)

    def take(self, *, timeout_s: float) -> Taken | None:
        """The next signal, or None after `timeout_s`."""
        # Never with a time to wait: interrupted by another signal as that runs out, CPython 3.11's sigtimedwait gives
        # what happened to lie in its memory (Modules/signalmodule.c, signal_sigtimedwait_impl), an old signal at worst.
        end_s = time.monotonic() + timeout_s
        while True:
            if self._noted:
                return self._noted.popleft()
            found = signal.sigtimedwait(self._numbers, 0)
            if found is not None:
                return Taken(number=signal.Signals(found.si_signo), is_shared=found.si_code == SI_KERNEL)
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                return None
            time.sleep(min(left_s, SLICE_S))
