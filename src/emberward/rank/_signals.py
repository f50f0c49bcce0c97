"""Requests to stop: a signal or the kill switch sets a flag, the ranks agree on it at the end of a step."""

import contextlib
import faulthandler
import signal
import threading
from pathlib import Path
from types import FrameType

from emberward.findings import EmberwardError
from emberward.report import read_json

SWITCH_EVERY_S = 0.25


class StopRequest:
    """Set by SIGTERM, SIGINT or SIGUSR2 (SLURM's time-limit warning), or by the kill switch; read between steps.

    Install it once, on the main thread.

    [Note: one world for one run]
    An elastic launcher that heard nothing of a node for a while starts the ranks of the others without it, while those
    of that node train on: two worlds in one run. So rank 0 writes the name of its world into the run's folder, and
    looks whether another one has written its own since: the older world ends then, before its next step, with an error,
    and its launcher takes it to the others. Plain torchrun and srun, which hold no lock, get the same.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self.is_switched_off = False
        self._place: Path | None = None
        self._successor: str | None = None

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
        """Looks for the kill switch four times a second, until it was seen once: it may be there for a moment
        only.

        A thread looks, so that a file system that stands still holds up nobody.
        """
        threading.Thread(target=self._look_for, args=(switch,), name="kill-switch", daemon=True).start()

    def guard(self, launch: Path, world: str) -> None:
        """Looks as often whether another world has taken over the run. See [Note: one world for one run]."""
        self._place = launch
        threading.Thread(target=self._look_at, args=(launch, world), name="one-world", daemon=True).start()

    def require_own_run(self) -> None:
        """Raises EmberwardError C111 once another world has taken over the run; does not block."""
        if self._successor is not None:
            raise EmberwardError(
                "another launch has taken over this run",
                code="C111",
                where=str(self._place),
                expected="one world of ranks for one run",
                found=f"ranks that {self._successor} started since train it now",
                next="none, where torchrun takes these ranks to the others; else end one of the two launches",
            )

    def _look_at(self, launch: Path, world: str) -> None:
        pause = threading.Event()
        while self._successor is None:
            said = read_json(launch) or {}
            if isinstance(said.get("world"), str) and said["world"] != world:
                self._successor = str(said.get("host"))
            pause.wait(SWITCH_EVERY_S)

    def _look_for(self, switch: Path) -> None:
        pause = threading.Event()
        while not self.is_switched_off:
            # What may not be looked at is not there; it may be later.
            with contextlib.suppress(OSError):
                self.is_switched_off = switch.exists()
            pause.wait(SWITCH_EVERY_S)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = signal.Signals(number)
