"""Events, lanes and groups as frozen values.

[Note: lanes and order]
A lane is a FIFO of one rank: a host thread, a device stream, or a communicator's own stream. `position` is an
event's index in its lane, counted from 0. An event starts when (1) the event before it in its lane has completed,
and (2) every event named in `after` has completed. A blocking call of the host sits on the host's lane. An
asynchronous call sits on its communicator's lane, with `after` naming the last host event before the call (the host
cannot issue it sooner) and a later `Wait` on the lane that joins it.

[Note: groups]
A group is its ranks and its creation index among the groups of those same ranks, never its name: names differ between
processes and versions. The label is for people and takes no part in comparison.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import assert_never


class CollectiveOp(StrEnum):
    """A call in which every member of a group takes part."""

    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_TO_ALL = "all_to_all"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    GATHER = "gather"
    SCATTER = "scatter"


class ReduceOp(StrEnum):
    """How a reducing collective combines values."""

    SUM = "sum"
    AVG = "avg"
    PRODUCT = "product"
    MIN = "min"
    MAX = "max"
    BAND = "band"
    BOR = "bor"
    BXOR = "bxor"
    PREMUL_SUM = "premul_sum"


class SyncKind(StrEnum):
    """Why a host thread waits for a device."""

    ITEM = "item"
    COPY_TO_HOST = "copy_to_host"
    SYNCHRONIZE = "synchronize"
    STREAM = "stream"
    EVENT = "event"
    LAUNCH_QUEUE = "launch_queue"


class State(StrEnum):
    """How far a live event had come when it was read."""

    ISSUED = "issued"
    STARTED = "started"
    COMPLETED = "completed"


class LaneKind(StrEnum):
    """What makes a lane a FIFO."""

    HOST = "host"
    STREAM = "stream"
    COMM = "comm"


class Stage(StrEnum):
    """Which part of a step or run an event belongs to."""

    FORWARD = "F"
    BACKWARD = "B"
    BACKWARD_INPUT = "I"
    BACKWARD_WEIGHT = "W"
    OPTIMIZER = "optimizer"
    EVAL = "eval"
    SAVE = "save"
    LOAD = "load"
    SETUP = "setup"
    DATA = "data"
    CHECK = "check"
    SEARCH = "search"
    EXIT = "exit"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Lane:
    """A FIFO of one rank. See [Note: lanes and order]. `label` is for people and is not compared."""

    kind: LaneKind
    index: int = 0
    label: str | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return self.label or f"{self.kind.value}{self.index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A communicator's members, global ranks in group order. See [Note: groups]."""

    ranks: tuple[int, ...]
    index: int = 0
    label: str | None = field(default=None, compare=False)

    def __str__(self) -> str:
        name = self.label or "group"
        shown = ",".join(map(str, self.ranks)) if len(self.ranks) <= 8 else f"{len(self.ranks)} ranks"
        return f"{name}[{shown}]" + (f"#{self.index}" if self.index else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A line of the user's program. `through`: the innermost ``file:line`` of an installed package that it called.

    One line of the user's stands for all calls of a trainer; those of the trainer tell them apart.
    """

    file: str
    line: int
    function: str | None = field(default=None, compare=False)
    through: str | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Where in the run: step and micro-batch counted from 0, stage of the step, name of an evaluation set or save."""

    step: int | None = None
    micro_batch: int | None = None
    stage: Stage | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ref:
    """Points at another event of the same rank."""

    lane: Lane
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """A collective; `numel` counts the elements of this rank's input. `root` is a global rank, None when unrooted.

    `out_numel` counts this rank's output where it differs from the input (gathers, scatters, uneven all-to-all).
    `in_splits` and `out_splits` count the elements for and from each member, in group order: always for an all-to-all
    and a scatter's root, for gathers and reduce-scatters where the parts differ. `parts` counts the elements of each
    tensor of a call that takes several at once. See `_sizes.py` for what None means.
    """

    op: CollectiveOp
    group: Group
    dtype: str | None = None
    numel: int | None = None
    root: int | None = None
    reduce_op: ReduceOp | None = None
    out_numel: int | None = None
    shape: tuple[int, ...] | None = None
    tensor: str | None = None
    in_splits: tuple[int, ...] | None = None
    out_splits: tuple[int, ...] | None = None
    parts: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier:
    """All members of `group` meet."""

    group: Group


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """A send to global rank `peer`. Sends and receives of one rank with the same `batch` are issued as one call.

    `tensor` names what the edge carries: an edge of a plan without one is an error (M106).
    """

    peer: int
    group: Group | None = None
    tag: int | None = None
    batch: int | None = None
    dtype: str | None = None
    numel: int | None = None
    shape: tuple[int, ...] | None = None
    tensor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recv:
    """A receive from global rank `peer`. See `Send`."""

    peer: int
    group: Group | None = None
    tag: int | None = None
    batch: int | None = None
    dtype: str | None = None
    numel: int | None = None
    shape: tuple[int, ...] | None = None
    tensor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """Work that waits for nobody."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSync:
    """A host thread waits for all events issued so far on `lane`, or on every lane when it is None."""

    kind: SyncKind
    lane: Lane | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """The lane waits until the event `on` of the same rank has completed."""

    on: Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCreate:
    """Creation of a group; blocks until every rank in `members` has called it. `members` None: the whole world."""

    group: Group
    members: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreWait:
    """Waits until `key` is in the rendezvous store."""

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSet:
    """Puts `key` into the rendezvous store; never waits. The partner that makes `StoreWait` decidable."""

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Acquire:
    """Takes one unit of a bounded thing of this rank (a pipeline buffer, a device's launch queue); waits for one."""

    credit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Gives one unit back."""

    credit: str


Body = (
    Collective
    | Barrier
    | Send
    | Recv
    | Compute
    | HostSync
    | Wait
    | GroupCreate
    | StoreWait
    | StoreSet
    | Acquire
    | Release
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that `rank` does. See [Note: lanes and order].

    Times are nanoseconds of the rank's own monotonic clock; None where nobody measured.
    """

    rank: int
    lane: Lane
    position: int
    body: Body
    after: tuple[Ref, ...] = ()
    site: Site | None = None
    phase: Phase = Phase()
    issued_ns: int | None = field(default=None, compare=False)
    started_ns: int | None = field(default=None, compare=False)
    completed_ns: int | None = field(default=None, compare=False)
    state: State | None = field(default=None, compare=False)

    @property
    def ref(self) -> Ref:
        """How other events of this rank point at this one."""
        return Ref(lane=self.lane, position=self.position)


def describe(body: Body) -> str:
    """One short line for people, e.g. ``all_reduce tp[0,1] fp32 128`` or ``send to 3 tag 2``."""
    match body:
        case Collective():
            parts = [body.op.value, str(body.group), body.dtype, None if body.numel is None else str(body.numel)]
            parts.append(None if body.root is None else f"root {body.root}")
            return " ".join(part for part in parts if part)
        case Barrier():
            return f"barrier {body.group}"
        case Send() | Recv():
            verb = "send to" if isinstance(body, Send) else "recv from"
            tail = "" if body.tag is None else f" tag {body.tag}"
            return f"{verb} {body.peer}{tail}" + ("" if body.tensor is None else f" ({body.tensor})")
        case Compute():
            return body.name
        case HostSync():
            return f"host sync ({body.kind.value})"
        case Wait():
            return f"wait for {body.on.lane}:{body.on.position}"
        case GroupCreate():
            return f"create {body.group}"
        case StoreWait():
            return f"wait for store key {body.key}"
        case StoreSet():
            return f"set store key {body.key}"
        case Acquire():
            return f"acquire {body.credit}"
        case Release():
            return f"release {body.credit}"
        case _:
            assert_never(body)
