"""Which line a rank spends its time at, beside a peer's: samples of both main threads, by py-spy, without a stop."""

import contextlib
import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from emberward.diagnose import Frame, LineOf, ThreadStack, class_of, user_frame
from emberward.events import WAITING
from emberward.processes import Child, ProcessTree
from emberward.sources.live._spy import find_spy

RATE_HZ = 50
MIN_SAMPLE_S = 3.0
MAX_SAMPLE_S = 12.0
MIN_SAMPLES = 3
MIN_COVERED = 0.35
"""The least part of a rank's excess that one line must make up to be named."""
MAX_FILE_BYTES = 8 << 20

_STACK = re.compile(r"^thread \((\w+)\)(?:: ([^;]*))?;(.*) (\d+)$")
_CALL = re.compile(r"^(.*) \((.*):(\d+)\)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class LineShares:
    """Where a main thread was: line -> samples outside of calls to its peers, and the samples in all."""

    counts: Mapping[str, int]
    num_samples: int


def line_shares(text: str, *, pid: int, line_of: LineOf) -> LineShares:
    """What py-spy's raw format (``thread (TID): NAME;outer;inner COUNT``, py-spy 0.4) tells of the main thread."""
    counts: Counter[str] = Counter()
    total = 0
    for row in text.splitlines():
        found = _STACK.match(row)
        if found is None or not (found[1] == str(pid) or found[2] == "MainThread"):
            continue
        number = int(found[4])
        total += number
        frames = tuple(_frame(call) for call in reversed(found[3].split(";")))
        thread = ThreadStack(name="MainThread", os_thread_id=pid, is_active=False, frames=frames)
        user = user_frame(frames)
        if user is not None and class_of(thread, line_of) not in WAITING:
            counts[user.site] += number
    return LineShares(counts=counts, num_samples=total)


def _frame(text: str) -> Frame:
    found = _CALL.match(text)
    return (
        Frame(function=text, file="?") if found is None else Frame(function=found[1], file=found[2], line=int(found[3]))
    )


def odd_line(late: LineShares, peer: LineShares, *, share: float) -> str | None:
    """The line at which the late rank is more often than its peer; None when no line makes up what it is late by.

    `share`: what the lateness costs, over the time of all steps.
    """
    if not late.num_samples or not peer.num_samples:
        return None
    scale = late.num_samples / peer.num_samples
    # A line that its peer is at as well, somewhat longer, is the same work done slower, and no line of its own.
    excess = {
        site: number - scale * peer.counts.get(site, 0)
        for site, number in late.counts.items()
        if number > 1.5 * scale * peer.counts.get(site, 0)
    }
    site = max(excess, key=lambda each: excess[each], default=None)
    return (
        site if site is not None and excess[site] >= max(MIN_SAMPLES, MIN_COVERED * share * late.num_samples) else None
    )


class LineSampler:
    """Samples processes of this host for a while, each by a child of its own. `poll` until it gives something."""

    def __init__(self, pids: Sequence[int], *, seconds: float, spy_path: str | None = None) -> None:
        self._tree = ProcessTree()
        self._children: list[Child] = []
        self._files: dict[int, Path] = {}
        spy = find_spy() if spy_path is None else spy_path
        if spy is None:
            return
        folder = self._tree.folder("emberward-lines-")
        self._files = {pid: folder / str(pid) for pid in pids}
        for pid, path in self._files.items():
            command = [spy, "record", "--nonblocking", "--idle", "--threads", "--full-filenames", "--format", "raw"]
            command += ["--rate", str(RATE_HZ), "--duration", str(max(1, round(seconds)))]
            with contextlib.suppress(OSError):
                whole = [*command, "--output", str(path), "--pid", str(pid)]
                self._children.append(self._tree.start(whole, environment=None))

    @property
    def is_done(self) -> bool:
        """Whether all samples are taken. Does not wait."""
        return all(child.poll() is not None for child in self._children)

    def take(self, line_of: LineOf, *, within_s: float = 0.0) -> dict[int, LineShares]:
        """What was sampled, by pid; ends what still runs `within_s` later. Who could not be sampled is left out."""
        found = {}
        until_s = time.monotonic() + within_s
        for child in self._children if within_s else ():
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(max(until_s - time.monotonic(), 0.0))
        for pid, path in self._files.items():
            with contextlib.suppress(OSError), path.open(errors="replace") as file:
                found[pid] = line_shares(file.read(MAX_FILE_BYTES), pid=pid, line_of=line_of)
        self.close()
        return found

    def close(self) -> None:
        """Ends what still runs and removes what was written."""
        self._tree.close()
        self._children.clear()


StartSampler = Callable[[Sequence[int], float], LineSampler]


def start_sampler(pids: Sequence[int], seconds: float) -> LineSampler:
    """A sampler of these processes, for about so long, within its bounds."""
    return LineSampler(pids, seconds=min(max(seconds, MIN_SAMPLE_S), MAX_SAMPLE_S))
