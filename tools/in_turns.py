"""Two programs in turns on one machine: each stands still while the other runs, so that both meet the same noise.

What a machine gives changes within seconds by more than the gains that are to be measured. Two runs one after the other
differ by that; slices of SLICE_S in turns do not.
"""

import itertools
import signal
import subprocess
import tempfile
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import told_steps

SLICE_S = 0.5
FIRST_STEPS = 4
"""That both have made before the turns begin: they load, and fill their caches."""


@dataclass(slots=True)
class Side:
    """One of the programs. `file`: what `told_steps` writes of it."""

    process: subprocess.Popen[bytes]
    file: Path
    stood: list[tuple[float, float]] = field(default_factory=list)
    """From when to when it stood still."""
    since_s: float | None = None

    def stop(self) -> None:
        """Every process of it stands still, since at the latest when this returns."""
        self._send(signal.SIGSTOP)
        self.since_s = time.monotonic()

    def go_on(self) -> None:
        """Undoes `stop`. What it runs while it is told to is none of the time in which it stood still."""
        until_s = time.monotonic()
        self._send(signal.SIGCONT)
        if self.since_s is not None:
            self.stood.append((self.since_s, until_s))
            self.since_s = None

    def _send(self, number: signal.Signals) -> None:
        with suppress(psutil.Error):
            top = psutil.Process(self.process.pid)
            for each in [top, *top.children(recursive=True)]:
                with suppress(psutil.Error):
                    each.send_signal(number)

    def end(self) -> None:
        """Kills what still runs."""
        with suppress(psutil.Error):
            top = psutil.Process(self.process.pid)
            for each in [*top.children(recursive=True), top]:
                with suppress(psutil.Error):
                    each.kill()
        self.process.wait()

    def step_ms(self, until_s: float) -> float | None:
        """The mean of an optimizer's step in the turns, without the time in which it stood still; None for too few."""
        ends = told_steps.read(self.file)
        if not self.stood or not ends:
            return None
        first = bisect_left(ends, self.stood[0][1])
        seen = ends[first : bisect_left(ends, until_s)]
        if len(seen) < 2:
            return None
        still_s = sum(min(b, seen[-1]) - max(a, seen[0]) for a, b in self.stood if a < seen[-1] and b > seen[0])
        return 1000 * (seen[-1] - seen[0] - still_s) / (len(seen) - 1)


def steps_in_turns(
    sides: Sequence[tuple[Path, Callable[[Path], list[str]]]], *, limit_s: float, first_steps: int = FIRST_STEPS
) -> tuple[float | None, ...]:
    """The mean milliseconds of an optimizer's step of each side; None for one that failed or told too few steps.

    `sides`: a folder, and the command to run in it, of a file that `told_steps` is to write. `first_steps`: that both
    make before their turns. Blocks until both ended.
    """
    with tempfile.TemporaryDirectory() as place:
        started: list[Side] = []
        end_s = time.monotonic() + limit_s
        try:
            for number, (folder, command) in enumerate(sides):
                file = Path(place) / f"{number}.steps"
                # A group of its own: where a job ends while another of its group is stopped, all of it may be hung up.
                process = subprocess.Popen(
                    command(file), cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL, start_new_session=True,
                )  # fmt: skip
                started.append(Side(process, file))
            until_s = _take_turns(started, end_s, first_steps)
            for side in started:
                side.process.wait(max(end_s - time.monotonic(), 1.0))
        except subprocess.TimeoutExpired:
            return (None,) * len(started)
        finally:
            for side in started:
                side.end()
        return tuple(None if side.process.returncode else side.step_ms(until_s) for side in started)


def _take_turns(sides: Sequence[Side], end_s: float, first_steps: int) -> float:
    """Until one has ended, or `end_s`; when that was. All go on afterwards."""
    while any(len(told_steps.read(side.file)) < first_steps and side.process.poll() is None for side in sides):
        for side in sides:
            if side.since_s is None and len(told_steps.read(side.file)) >= first_steps:
                side.stop()
        if time.monotonic() > end_s:
            break
        time.sleep(0.02)
    for side in sides:
        if side.since_s is None:
            side.stop()
    for side in itertools.cycle(sides):
        side.go_on()
        time.sleep(SLICE_S)
        if any(each.process.poll() is not None for each in sides) or time.monotonic() > end_s:
            break
        side.stop()
    until_s = time.monotonic()
    for side in sides:
        side.go_on()
    return until_s
