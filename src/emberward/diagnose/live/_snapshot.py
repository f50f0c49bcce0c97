"""One snapshot at a job: what each rank's ring, processes and stacks said at one moment. Plain data, for other
hosts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from emberward.diagnose import NO_DATA, DataSeen, Departed, Frame, ProcessStacks
from emberward.diagnose.live._process import ProcessFacts
from emberward.diagnose.live._wire import from_plain, to_plain
from emberward.events import Stage

MAX_FRAMES = 80
"""Frames of a thread that a snapshot keeps, half of them the innermost."""
MAX_THREADS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A mark that tells about an end: an exception, a thread that died, the main thread's end, the end of the data."""

    kind: str
    text: str | None
    site: str | None
    age_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCall:
    """A collective that a thread of a rank made in Python and has not returned from. `is_new`: made nowhere before."""

    text: str
    function: str
    file: str
    line: int
    is_new: bool
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RingFacts:
    """What a rank's ring tells the judge.

    `flight`: its calls in the shape of a flight-recorder dump. `moved_age_s`: seconds since any call or mark.
    `notice_s`, `limit_s`: how long this rank may stand still in this phase before it is worth a word, and before
    standing still is an alarm by itself. `backward`: file and line of a backward of the main thread that has not
    ended. `creating`: the site of a group's creation that has not ended. `waits_for_device`: the main thread is in a
    read of a value or a synchronisation, for calls that a device has not ended. `open_call` is the main thread's,
    `beside` another thread's. `before`: where the main thread made the call, or began the backward, before the one
    that it is in; `lacks`: the line to which it came from there in each earlier round, where it is at another one now.
    `been_at`: the lines of all calls that are left but the one that it is in, each once; `ever_at`: all lines at which
    it ever was. `data_at`: where it last asked for data. `has_ended`: its program came to its end by itself, after
    which all calls were counted. `crashed`: the main
    thread's stack when its process crashed.
    """

    flight: Mapping[str, Any]
    num_calls: int
    num_done: int
    step: int | None
    stage: Stage | None
    stage_name: str | None
    heartbeat_age_s: float | None
    moved_age_s: float | None
    notice_s: float
    limit_s: float
    has_history: bool
    backward: tuple[str, int] | None = None
    moments: tuple[Moment, ...] = ()
    groups_made: tuple[str, ...] = ()
    creating: str | None = None
    creating_ranks: tuple[int, ...] = ()
    blocked_record: int | None = None
    waits_for_device: bool = False
    open_call: OpenCall | None = None
    open_sequence: int | None = None
    """Which call of its group `open_call` is, where every call of the group is counted."""
    beside: OpenCall | None = None
    before: Frame | None = None
    lacks: Frame | None = None
    been_at: tuple[Frame, ...] = ()
    ever_at: tuple[Frame, ...] = ()
    data: DataSeen = NO_DATA
    data_at: str | None = None
    crashed: tuple[Frame, ...] = ()
    departed: Departed | None = None
    has_ended: bool = False
    problems: tuple[str, ...] = ()

    def moment(self, kind: str) -> Moment | None:
        """The newest moment of a kind."""
        return next((m for m in reversed(self.moments) if m.kind == kind), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSnapshot:
    """One rank's process at one moment. `stacks` are its own and its children's, as far as they could be had.

    `has_moved`: calls of it began or ended while the stacks were taken. Then `ring` is the newer one, and what its own
    stack said is left out: the two would tell of two moments.
    """

    rank: int
    host: str
    process: ProcessFacts
    children: tuple[ProcessFacts, ...] = ()
    stacks: tuple[ProcessStacks, ...] = ()
    ring: RingFacts | None = None
    has_moved: bool = False
    problems: tuple[str, ...] = ()
    switches_after: Mapping[int, int] = field(default_factory=dict)
    """By thread, how often it had waited when its stack had been taken, which itself makes it wait."""

    @property
    def own_stacks(self) -> ProcessStacks | None:
        """The stacks of the rank's own process."""
        return next((s for s in self.stacks if s.pid == self.process.pid), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All ranks that were seen at one moment. `taken_s` is the looker's monotonic clock; `world_size` None: untold."""

    taken_s: float
    taken_unix: float
    ranks: Mapping[int, RankSnapshot]
    world_size: int | None = None
    problems: tuple[str, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """The snapshot as plain data."""
        ranks = [to_plain(_bounded(rank)) for rank in self.ranks.values()]
        return {**to_plain(replace(self, ranks={})), "ranks": ranks}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Snapshot":
        """The snapshot that `to_json` gave. Raises ValueError, KeyError or TypeError on other data."""
        ranks = [from_plain(RankSnapshot, item) for item in data["ranks"]]
        return replace(from_plain(cls, {**data, "ranks": {}}), ranks={rank.rank: rank for rank in ranks})


def join_snapshots(snapshots: Iterable[Snapshot]) -> Snapshot:
    """Looks of several hosts as one; of a rank that two tell of, the later snapshot counts."""
    found = sorted(snapshots, key=lambda snapshot: snapshot.taken_unix)
    ranks = {rank: snapshot for each in found for rank, snapshot in each.ranks.items()}
    sizes = [snapshot.world_size for snapshot in found if snapshot.world_size is not None]
    return Snapshot(
        taken_s=max((snapshot.taken_s for snapshot in found), default=0.0),
        taken_unix=max((snapshot.taken_unix for snapshot in found), default=0.0),
        ranks=dict(sorted(ranks.items())),
        world_size=max(sizes, default=None),
        problems=tuple(problem for snapshot in found for problem in snapshot.problems),
    )


def _bounded(snapshot: RankSnapshot) -> RankSnapshot:
    """The same with as many threads and frames as a snapshot keeps."""

    def bounded(process: ProcessStacks) -> ProcessStacks:
        threads = process.threads[:MAX_THREADS]
        return replace(process, threads=tuple(replace(each, frames=_kept(each.frames)) for each in threads))

    ring = None if snapshot.ring is None else replace(snapshot.ring, crashed=_kept(snapshot.ring.crashed))
    return replace(snapshot, stacks=tuple(map(bounded, snapshot.stacks)), ring=ring)


def _kept(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    if len(frames) <= MAX_FRAMES:
        return frames
    return frames[: MAX_FRAMES // 2] + frames[-MAX_FRAMES // 2 :]
