"""Whether a job that is watched goes on, by the least that can be read: the words of its rings, and its processes.

[Note: pulses]
While everything goes on as ever a reading of all rings would say nothing new. So as long as each ring's words change
within QUIET_S, every process is there, and nothing was said that may have to be taken back, no ring is read. What does
not show in the words only makes a rank look still: then its ring is read, which tells; and which tells too how long a
rank may stand still where it stands now (a phase that ends changes the words).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from emberward.sources.live._process import is_running
from emberward.sources.ring import Pulse, RingView, find_rings, pulse_of

QUIET_S = 2.5
"""A rank whose words stand for so long is looked at closely; well before standing still is worth a word."""
START_S = 15.0
"""So long after the last ring came, rings are read at every poll: what ranks tell of themselves then counts."""

ReadPulses = Callable[[Path], Mapping[Path, Pulse | None]]


def read_pulses(folder: Path) -> Mapping[Path, Pulse | None]:
    """The pulse of each ring in a folder; see `pulse_of`."""
    return {path: pulse_of(path) for path in find_rings(folder)}


@dataclass(slots=True)
class _Rank:
    """A ring that was read: its process, and its newest pulse with the time when it was new."""

    pid: int
    start_ticks: int | None
    pulse: Pulse | None
    moved_s: float
    patience_s: float


class Pulses:
    """Remembers how the rings' words were. Told of each full reading by `learn`; `goes_on` then spares the next one."""

    def __init__(self, *, read: ReadPulses = read_pulses) -> None:
        self._read = read
        self._paths: frozenset[Path] = frozenset()
        self._ranks: dict[Path, _Rank] = {}
        self._num_exits = 0
        self._new_s: float | None = None

    def learn(
        self,
        folder: Path,
        views: Mapping[int, RingView],
        *,
        notice_s: Mapping[int, float],
        num_exits: int,
        now_s: float,
    ) -> None:
        """Takes what a full reading said just now; `notice_s`: how long ranks may stand still, where that was asked."""
        pulses = self._read(folder)
        if self._new_s is None or frozenset(pulses) != self._paths:
            self._new_s = now_s
        self._paths, self._num_exits = frozenset(pulses), num_exits
        ranks = {}
        for number, view in views.items():
            if view.pid is None:
                continue
            age_s = view.moved_age_s or 0.0
            patience_s = max(QUIET_S, notice_s.get(number, 0.0) - 1.0)
            ranks[view.path] = _Rank(view.pid, view.start_ticks, pulses.get(view.path), now_s - age_s, patience_s)
        self._ranks = ranks

    def goes_on(self, folder: Path, *, num_exits: int, now_s: float) -> bool:
        """Whether every rank that was read last has moved since, lives, and no other ring or exit code has come."""
        if self._new_s is None or now_s - self._new_s < START_S or num_exits != self._num_exits or not self._ranks:
            return False
        pulses = self._read(folder)
        if frozenset(pulses) != self._paths:
            return False
        for path, rank in self._ranks.items():
            pulse = pulses.get(path)
            if pulse is None or not is_running(rank.pid, start_ticks=rank.start_ticks):
                return False
            if rank.pulse is None or pulse.has_ended != rank.pulse.has_ended:
                return False
            if pulse != rank.pulse:
                rank.pulse, rank.moved_s, rank.patience_s = pulse, now_s, QUIET_S
            elif now_s - rank.moved_s > rank.patience_s:
                return False
        return True
