"""What a rank recorded of its calls, as any reader of dumps or rings gives it: the nouns that the rules read."""

import math
import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from emberward.diagnose._frames import Frame, of_program, package_frame, place_of, program_of, user_frame
from emberward.diagnose._order import NO_DATA, DataSeen
from emberward.findings import Cause

KNOWN_VERSIONS = ((2, 4), (2, 10))
"""Formats that were read in tests, both ends included."""
_P2P_NAME = re.compile(r"(?:^|:)(send|recv) (\d+)(?:->|<-)(\d+)$")
# Torch's recorder tells neither; Emberward's own, written in the same shape, does.
_ROOT = re.compile(r" root=(\d+)")
_REDUCE = re.compile(r" by=(\w+)")
GroupName = tuple[str, str]
"""(name, description) of a group as the dump gives them."""
Signature = tuple[Any, ...]


class Members(tuple[int, ...]):
    """Ranks of a group: a tuple that is hashed once, since of 16,384 ranks each has groups of thousands."""

    def __hash__(self) -> int:
        known = self.__dict__.get("number")
        if known is None:
            known = self.__dict__["number"] = super().__hash__()
        return known


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One recorded call. `seq` counts a group's collectives from 1; `peer` is a group rank, of a send or receive."""

    record: int
    group: GroupName
    seq: int
    op: str
    numel: int | None
    out_numel: int | None
    dtype: str | None
    is_completed: bool
    timeout_ms: int | None
    frames: tuple[Frame, ...]
    is_p2p: bool = False
    is_send: bool = False
    peer: int | None = None
    root: int | None = None
    reduce_op: str | None = None
    tag: int | None = None

    @property
    def site(self) -> str | None:
        """The innermost line that a user wrote, None when the recorder kept none (autograd's C++ threads)."""
        frame = user_frame(self.frames)
        return None if frame is None else frame.site

    @property
    def place(self) -> str | None:
        """Where the call stands, for comparisons. See `place_of`."""
        return place_of(self.site, package_frame(self.frames))

    @property
    def text(self) -> str:
        """The call in a few words."""
        size = "" if self.numel is None else f" of {self.numel}"
        return f"{self.op}{size}{'' if self.dtype is None else ' ' + self.dtype}"


@dataclass(slots=True, kw_only=True)
class GroupPart:
    """What one rank recorded of one group. `seqs[i]` and `signatures[i]` belong together, ascending.

    `enqueued` and `completed` are the highest seq so far. `entries` holds the raw records of all or of the last calls.
    `is_alike` when the calls equal those of `likeness`, the first rank read with the same calls.
    """

    name: GroupName
    ranks: tuple[int, ...] | None
    seqs: list[int]
    signatures: list[Signature]
    entries: list[dict[str, Any]]
    enqueued: int
    completed: int
    is_alike: bool = True

    def call(self, seq: int) -> Call | None:
        """The last kept call with `seq`, None when it is not kept."""
        kept = takewhile(lambda entry: entry["collective_seq_id"] >= seq, reversed(self.entries))
        return next((self.as_call(entry) for entry in kept if entry["collective_seq_id"] == seq), None)

    def as_call(self, entry: dict[str, Any]) -> Call:
        """One of `entries` as a call of this group: the record may be shared with a group of another name."""
        return call_of(entry, self.completed, group=self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Departed:
    """The first call of a rank that its certificate does not have there, in the step that it is in: what differs,
    the proved call and the one made in words, the line, and where in the step.
    """

    cause: Cause
    expected: str
    found: str
    site: str | None
    step: int | None
    micro_batch: int | None
    stage: str | None


MAX_STORE_KEYS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCall:
    """A rank's call of a store: it sets `keys`, waits until they are there, or `asks` for them without waiting.

    `after`: the record of the newest call between ranks that it had made before; None where nobody tells. `is_waiting`:
    it is in this call now, or asks again and again.
    """

    is_set: bool
    asks: bool
    keys: tuple[str, ...]
    frame: Frame
    after: int | None = None
    is_waiting: bool = False


def store_calls(rows: object) -> tuple[StoreCall, ...] | None:
    """The calls that a recorder wrote down as rows of way, keys, file, line, function, newest record, and whether it
    waits there.

    None when there are none, or one is not of that form: what a rank did to its stores is not known then.
    """
    found: list[StoreCall] = []
    for row in rows if isinstance(rows, list) else (None,):
        match row:
            case [("set" | "wait" | "ask") as way, list() as keys, str() as file, int() as line, str() as name, *more]:
                *after, is_waiting = more or [None]
                if not isinstance(is_waiting, bool):
                    return None
                call = StoreCall(
                    is_set=way == "set",
                    asks=way == "ask",
                    keys=tuple(map(str, keys[:MAX_STORE_KEYS])),
                    frame=Frame(function=name, file=file, line=line),
                    after=after[0] if after and isinstance(after[0], int) else None,
                    is_waiting=is_waiting,
                )
                found.append(call)
            case _:
                return None
    return tuple(found)


@dataclass(slots=True, kw_only=True)
class RankFlight:
    """One rank's dump. `pending` are its calls that have not completed, in the order of issue.

    `p2p_counts`: how many sends and receives it holds, by group, whether it is a send, peer and line; `p2p_tags` and
    `p2p_records`: their tags and numbers in the order of issue, by group, whether it is a send, and peer.
    `written_ns`: the date of its file, which a copy moves on: it was dumped then at the latest. `still_s`: how long it
    had stood still, where the file itself tells.
    """

    rank: int
    path: str
    version: tuple[int, int]
    backend: str | None
    groups: dict[GroupName, GroupPart]
    pending: list[Call]
    p2p_pending: list[Call]
    num_entries: int
    thread_ids: frozenset[str]
    p2p_counts: Counter[tuple[GroupName, bool, int | None, str | None]] = field(default_factory=Counter)
    p2p_tags: dict[tuple[GroupName, bool, int | None], list[int | None]] = field(default_factory=dict)
    p2p_records: dict[tuple[GroupName, bool, int | None], list[int]] = field(default_factory=dict)
    first_ns: int | None = None
    last_ns: int | None = None
    longest_gap_ns: int = 0
    written_ns: int | None = None
    still_s: float | None = None
    num_dropped: int = 0
    is_ring: bool = False
    notes: list[str] = field(default_factory=list)
    store: tuple[StoreCall, ...] | None = None
    """Its last calls of stores; None where nobody knows them."""
    step: int | None = None
    """The step that it is in, as its own recorder tells: so many it has ended."""
    data: DataSeen = NO_DATA
    """The data that it asked for, as its own recorder tells."""
    been_at: tuple[Frame, ...] = ()
    """The lines of the calls and backwards that are left of those before the newest one, as its own recorder tells."""
    ever_at: frozenset[Frame] = frozenset()
    """All lines that its own recorder ever wrote down: whether it was never at one is known, however long it runs."""
    lacks: Frame | None = None
    """The line to which it came in each earlier round and not in this one, as its own recorder tells."""
    before: tuple[Frame, ...] = ()
    """Where the rank was in the call or backward before the open one, as its own recorder tells; empty: untold."""

    departed: Departed | None = None
    """How it left its proved order, as its own certificate tells; None where it did not, or has none."""
    is_free: bool = False
    """Whether its main thread sits in no call, whatever is open, as its own recorder tells."""
    has_ended: bool = False
    """Whether its program came to its end by itself, after which its recorder counted its calls."""

    @property
    def head(self) -> Call | None:
        """The oldest call that has not completed."""
        return self.pending[0] if self.pending else None


def integer_of(value: object) -> int | None:
    """A whole number, also one written as text; None for anything else."""
    if type(value) is int:
        return value
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,19}", value):
        return int(value)
    return None


def _numel(sizes: object) -> int | None:
    if not isinstance(sizes, list | tuple) or not sizes:
        return None
    shapes = (shape if isinstance(shape, list | tuple) else () for shape in sizes)
    return sum(math.prod(length for length in shape if isinstance(length, int)) for shape in shapes)


def frames_of(raw: object) -> tuple[Frame, ...]:
    """A record's frames, innermost first; unreadable ones are left out."""
    frames = []
    for item in raw if isinstance(raw, list | tuple) else ():
        if isinstance(item, dict):
            line = integer_of(item.get("line"))
            frames.append(Frame(function=str(item.get("name", "?")), file=str(item.get("filename", "?")), line=line))
    found = tuple(frames)
    return of_program(found, program_of(found))


def op_of(profiling_name: str) -> str:
    """The operation without its backend and its peers: ``nccl:send 0->3`` is ``send``."""
    return profiling_name.rpartition(":")[2].partition(" ")[0].lstrip("_")


def _is_done(entry: dict[str, Any], completed: int) -> bool:
    if entry["retired"] is True or entry["state"] == "completed":
        return True
    return not entry["is_p2p"] and entry["collective_seq_id"] <= completed


def group_name(entry: dict[str, Any]) -> GroupName:
    """The entry's group."""
    value = entry.get("process_group")
    if isinstance(value, list | tuple) and value and isinstance(value[0], str):
        return value[0], str(value[1]) if len(value) > 1 else ""
    return str(entry["pg_id"]), ""


def call_of(entry: dict[str, Any], completed: int = 0, *, group: GroupName | None = None) -> Call:
    """The entry as a value. `group`: of which group, where the entry's own word does not count."""
    name = entry["profiling_name"]
    p2p = _P2P_NAME.search(name)
    root, reduce = _ROOT.search(name), _REDUCE.search(name)
    dtypes = entry["input_dtypes"] or entry["output_dtypes"]
    return Call(
        record=integer_of(entry.get("record_id")) or 0,
        group=group_name(entry) if group is None else group,
        seq=entry["collective_seq_id"],
        op=op_of(name),
        numel=_numel(entry["input_sizes"]),
        out_numel=_numel(entry["output_sizes"]),
        dtype=str(dtypes[0]) if dtypes else None,
        is_completed=_is_done(entry, completed),
        timeout_ms=integer_of(entry.get("timeout_ms")),
        frames=frames_of(entry.get("frames")),
        is_p2p=entry["is_p2p"] or p2p is not None,
        is_send=p2p is not None and p2p.group(1) == "send",
        peer=None if p2p is None else int(p2p.group(3)),
        root=None if root is None else int(root.group(1)),
        reduce_op=None if reduce is None else reduce.group(1),
        tag=integer_of(entry.get("tag")),
    )
