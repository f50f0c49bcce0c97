"""One look at a job: what each rank's ring, processes and stacks said at one moment. Plain data, for other hosts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from emberward.diagnose import Frame, ProcessStacks, StackSource, ThreadStack
from emberward.diagnose.live._process import ProcessFacts
from emberward.diagnose.live._typed import typed
from emberward.events import Stage

MAX_FRAMES = 80
"""Frames of a thread that a look keeps, half of them the innermost."""
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
    standing still is an alarm by itself. `backward`: file and line of a backward of the main thread that has not ended.
    `creating`: the site of a group's creation that has not ended. `waits_for_device`: the main thread is in a read of a
    value or a synchronisation, for calls that a device has not ended. `open_call` is the main
    thread's, `beside` another thread's. `before`: where the main thread made the call, or
    began the backward, before the one that it is in. `crashed`: the main thread's stack when its process crashed.
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
    beside: OpenCall | None = None
    before: Frame | None = None
    crashed: tuple[Frame, ...] = ()
    problems: tuple[str, ...] = ()

    def moment(self, kind: str) -> Moment | None:
        """The newest moment of a kind."""
        return next((m for m in reversed(self.moments) if m.kind == kind), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankLook:
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
class Look:
    """All ranks that were seen at one moment. `taken_s` is the looker's monotonic clock; `world_size` None: untold."""

    taken_s: float
    taken_unix: float
    ranks: Mapping[int, RankLook]
    world_size: int | None = None
    problems: tuple[str, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """The look as plain data."""
        return {
            "taken_s": self.taken_s,
            "taken_unix": self.taken_unix,
            "world_size": self.world_size,
            "problems": list(self.problems),
            "ranks": [_rank_json(rank) for rank in self.ranks.values()],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Look":
        """The look that `to_json` gave. Raises ValueError, KeyError or TypeError on other data."""
        ranks = [_rank_from(item) for item in data["ranks"]]
        return cls(
            taken_s=float(data["taken_s"]),
            taken_unix=float(data["taken_unix"]),
            world_size=data["world_size"],
            problems=tuple(map(str, data["problems"])),
            ranks={rank.rank: rank for rank in ranks},
        )


def join_looks(looks: Iterable[Look]) -> Look:
    """Looks of several hosts as one; of a rank that two tell of, the later look counts."""
    found = sorted(looks, key=lambda look: look.taken_unix)
    ranks = {rank: look for each in found for rank, look in each.ranks.items()}
    sizes = [look.world_size for look in found if look.world_size is not None]
    return Look(
        taken_s=max((look.taken_s for look in found), default=0.0),
        taken_unix=max((look.taken_unix for look in found), default=0.0),
        ranks=dict(sorted(ranks.items())),
        world_size=max(sizes, default=None),
        problems=tuple(problem for look in found for problem in look.problems),
    )


def _rank_json(look: RankLook) -> dict[str, Any]:
    return {
        "rank": look.rank,
        "host": look.host,
        "process": look.process.to_json(),
        "children": [child.to_json() for child in look.children],
        "stacks": [_stacks_json(process) for process in look.stacks],
        "ring": None if look.ring is None else _ring_json(look.ring),
        "has_moved": look.has_moved,
        "switches_after": {str(tid): count for tid, count in look.switches_after.items()},
        "problems": list(look.problems),
    }


def _rank_from(data: Mapping[str, Any]) -> RankLook:
    return RankLook(
        rank=int(data["rank"]),
        host=str(data["host"]),
        process=ProcessFacts.from_json(data["process"]),
        children=tuple(map(ProcessFacts.from_json, data["children"])),
        stacks=tuple(map(_stacks_from, data["stacks"])),
        ring=None if data["ring"] is None else _ring_from(data["ring"]),
        has_moved=bool(data.get("has_moved", False)),
        switches_after={int(tid): int(count) for tid, count in data["switches_after"].items()},
        problems=tuple(map(str, data["problems"])),
    )


def _kept(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    if len(frames) <= MAX_FRAMES:
        return frames
    return frames[: MAX_FRAMES // 2] + frames[-MAX_FRAMES // 2 :]


def _stacks_json(process: ProcessStacks) -> dict[str, Any]:
    return {
        "pid": process.pid,
        "parent_pid": process.parent_pid,
        "rank": process.rank,
        "host": process.host,
        "command": process.command,
        "threads": [
            {
                "name": thread.name,
                "tid": thread.os_thread_id,
                "ident": thread.thread_ident,
                "active": thread.is_active,
                "gil": thread.has_gil,
                "frames": [[f.function, f.file, f.line] for f in _kept(thread.frames)],
            }
            for thread in process.threads[:MAX_THREADS]
        ],
    }


def _frame_from(data: Sequence[Any]) -> Frame:
    function, file, line = data
    return typed(Frame, function=function, file=file, line=line)


def _stacks_from(data: Mapping[str, Any]) -> ProcessStacks:
    return typed(
        ProcessStacks,
        pid=data["pid"],
        parent_pid=data["parent_pid"],
        rank=data["rank"],
        host=data["host"],
        command=data["command"],
        path=f"process {data['pid']}",
        source=StackSource.PY_SPY,
        threads=tuple(
            typed(
                ThreadStack,
                name=thread["name"],
                os_thread_id=thread["tid"],
                thread_ident=thread["ident"],
                is_active=thread["active"],
                has_gil=thread["gil"],
                frames=tuple(map(_frame_from, thread["frames"])),
            )
            for thread in data["threads"]
        ),
    )


_PLAIN = (
    "num_calls", "num_done", "step", "stage_name", "heartbeat_age_s", "moved_age_s", "notice_s", "limit_s",
    "has_history", "creating", "blocked_record", "waits_for_device",
)  # fmt: skip


def _ring_json(ring: RingFacts) -> dict[str, Any]:
    return {
        **{name: getattr(ring, name) for name in _PLAIN},
        "flight": ring.flight,
        "stage": None if ring.stage is None else ring.stage.value,
        "backward": None if ring.backward is None else list(ring.backward),
        "groups_made": list(ring.groups_made),
        "open_call": None if ring.open_call is None else asdict(ring.open_call),
        "beside": None if ring.beside is None else asdict(ring.beside),
        "before": None if ring.before is None else [ring.before.function, ring.before.file, ring.before.line],
        "crashed": [[f.function, f.file, f.line] for f in _kept(ring.crashed)],
        "creating_ranks": list(ring.creating_ranks),
        "problems": list(ring.problems),
        "moments": [[m.kind, m.text, m.site, m.age_s] for m in ring.moments],
    }


def _ring_from(data: Mapping[str, Any]) -> RingFacts:
    return typed(
        RingFacts,
        **{name: data[name] for name in _PLAIN},
        flight=dict(data["flight"]),
        stage=None if data["stage"] is None else Stage(data["stage"]),
        backward=None if data["backward"] is None else (data["backward"][0], data["backward"][1]),
        groups_made=tuple(data["groups_made"]),
        open_call=None if data.get("open_call") is None else typed(OpenCall, **data["open_call"]),
        beside=None if data.get("beside") is None else typed(OpenCall, **data["beside"]),
        before=None if data.get("before") is None else _frame_from(data["before"]),
        crashed=tuple(map(_frame_from, data.get("crashed", ()))),
        creating_ranks=tuple(data["creating_ranks"]),
        problems=tuple(data["problems"]),
        moments=tuple(
            typed(Moment, kind=kind, text=text, site=site, age_s=age) for kind, text, site, age in data["moments"]
        ),
    )
