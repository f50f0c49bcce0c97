"""Requests to stop: a signal sets a flag, the ranks agree on it at the end of a step."""

import faulthandler
import signal
from types import FrameType


class StopRequest:
    """Set by SIGTERM, SIGINT or SIGUSR2 (SLURM's time-limit warning), read between steps.

    Install it once, on the main thread.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None

    @property
    def is_set(self) -> bool:
        """Whether this rank was asked to stop."""
        return self.signal is not None

    def install(self) -> None:
        """Takes over the stop signals, and lets SIGUSR1 write all stacks to standard error at any time."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2):
            signal.signal(number, self._note)
        faulthandler.enable()
        faulthandler.register(signal.SIGUSR1, all_threads=True)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = signal.Signals(number)
