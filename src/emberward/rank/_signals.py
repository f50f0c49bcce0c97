"""Requests to stop: a signal or the kill switch sets a flag, the ranks agree on it at the end of a step."""

import contextlib
import faulthandler
import signal
import threading
from pathlib import Path
from types import FrameType

SWITCH_EVERY_S = 0.25


class StopRequest:
    """Set by SIGTERM, SIGINT or SIGUSR2 (SLURM's time-limit warning), or by the kill switch; read between steps.

    Install it once, on the main thread.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self.is_switched_off = False

    @property
    def is_set(self) -> bool:
        """Whether this rank was asked to stop."""
        return self.signal is not None or self.is_switched_off

    def install(self) -> None:
        """Takes over the stop signals, and lets SIGUSR1 write all stacks to standard error at any time."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2):
            signal.signal(number, self._note)
        faulthandler.enable()
        faulthandler.register(signal.SIGUSR1, all_threads=True)

    def watch(self, switch: Path) -> None:
        """Looks for the kill switch four times a second, until it was seen once: it may be there for a moment only.

        A thread looks, so that a file system that stands still holds up nobody.
        """
        threading.Thread(target=self._look_for, args=(switch,), name="kill-switch", daemon=True).start()

    def _look_for(self, switch: Path) -> None:
        pause = threading.Event()
        while not self.is_switched_off:
            # What may not be looked at is not there; it may be later.
            with contextlib.suppress(OSError):
                self.is_switched_off = switch.exists()
            pause.wait(SWITCH_EVERY_S)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = signal.Signals(number)
