"""Where everything lies in a ring's file.

[Note: a ring's file]
Little-endian, of one fixed size, allocated in full before it is mapped. In order:

* head: `HEAD`, who writes (rewritten when the rank learns its number), closed by a CRC-32;
* words: 64-bit words that are stored whole, one at a time: heartbeat, step, phase, certificate, flight copies;
* groups: `GROUP_WORDS` words for each group; word 0 is the table record that names its ranks;
* marks: fixed slots, number modulo their count; began and ended are written apart, each with its own check; then a
  slot for each depth of the main thread's open marks;
* slots: one for each call, number modulo their count; an issue part with an Adler-32 over it, both stored at once, then
  a completion part;
* table: records that are only ever appended (`RECORD`): sites, groups, texts, threads, problems;
* blobs: two areas for copies of torch's flight recorder, written in turn, compressed by zlib; behind each, compressed
  apart, the calls of stores as JSON (none in a ring of before).

Numbers count from 1, so that a slot of zeros is empty. A reader believes a part only when its number is the one that
belongs there and its check fits: a process may die, and a reader may look, between any two stores.

A slot's check is zlib's Adler-32 (RFC 1950), which costs half of what its CRC-32 costs: of 80 bytes it tells every
changed byte, and a slot of which a part is an older call's by its number and time. Version 1 had a CRC-32 there.
"""

import struct
from dataclasses import dataclass
from enum import StrEnum

from emberward.events import CollectiveOp, ReduceOp, Stage, SyncKind

MAGIC = b"EMBRING\x01"
VERSION = 2
MAX_RING_BYTES = 64 << 20
"""A file that is longer is no ring."""

HEAD = struct.Struct("<8sIiiiQQQQ32s64s7IBxxx")
"""magic, version, rank, world, local rank, pid, start ticks, began unix ns, began monotonic ns, boot id, host, geometry
(groups, marks, slots, table bytes, blob bytes, reserved, reserved), transport."""
HEAD_CRC_AT = HEAD.size
WORDS_AT = 512
GROUPS_AT = 4096
GROUP_WORDS = 8

MARK = struct.Struct("<QQqIIHBx")
"""number, began ns, step (-1: none), name (table), site (table), thread, kind."""
MARK_CRC_AT = 36
MARK_END_AT = 40
"""Ended ns, check over it and the number."""
MARK_BYTES = 64
WHOLE_MARK = struct.Struct("<QQqIIHBxIQQ8x")
"""A mark, its CRC-32, and its end with its check."""
MAX_DEPTH = 16
"""Marks of the main thread that are open inside each other; each has a slot of its own after the others, so that what
happens inside a long one cannot push it out."""

SLOT = struct.Struct("<QQqqQiiiiIIIHHhBBBBxx")
"""number, issued ns, numel, out numel, sequence (of a wait: its call), peer, tag, batch, step, site, shape, phase,
group, thread, micro-batch, op, dtype, reduce op, flags. Absent numbers are -1, absent table records 0."""
SHORT_SLOT = struct.Struct("<QQqqQiqiQIHHIBBxx")
"""`SLOT` of a call without tag, batch, shape and micro-batch, in fewer fields: number, issued ns, numel, out numel,
sequence, peer, -1, step, site, phase, group, thread, `short_kind` of op and dtype, reduce op, flags."""
assert SHORT_SLOT.size == SLOT.size
CHECKED_SLOT = struct.Struct("<80sI")
"""A packed slot and the check over it."""
DONE = struct.Struct("<QQQ")
SLOT_DONE_AT = 88
"""Started ns (0: not known; else both are the device's), completed ns, check over both and the number."""
SLOT_BYTES = 112

RECORD = struct.Struct("<IBxH")
"""CRC-32 of all that follows it, kind, length of the payload. Records begin at multiples of 8."""
MAX_RECORD_BYTES = 4096

CHECK = 0x9E3779B97F4A7C15
"""Makes a check of zeros wrong."""
MASK = (1 << 64) - 1
RAISED = MASK
"""In place of the start of a call that raised instead of completing."""


class Word:
    """The live words, by their index from `WORDS_AT`."""

    HEARTBEAT = 0
    STEP = 1
    DEPTH = 2
    PHASE_SINCE = 3
    TABLE_USED = 4
    FLAGS = 5
    MOVED = 6
    CALLS = 7
    """The number of the newest call at the last heartbeat: where a reader begins to look for the newest."""
    CERTIFIED = 8
    """Two cells of position, digest, check; written in turn."""
    FLIGHT = 16
    """Two cells of number, taken unix ns, length, check (over them and the CRC-32 of the bytes); written in turn."""
    STORE = 24
    """How often what the process put into stores, or waits for there, has changed: a copy of another number is old."""


class GroupWord:
    """A group's words, by their index."""

    RECORD = 0
    ISSUED = 1
    COMPLETED = 2
    P2P_ISSUED = 3
    P2P_COMPLETED = 4
    SEQUENCE = 5
    """torch's own count, plus one."""
    MOVED = 6


class Flag:
    """Bits of the flags' word."""

    TABLE_FULL = 1
    GROUPS_FULL = 2
    ENDED = 4
    """An exception has left a thread, or the main thread has ended: the marks tell which."""


class Record:
    """Kinds of table records."""

    TEXT = 1
    SITE = 2
    GROUP = 3
    THREAD = 4
    PROBLEM = 5
    PHASE = 6
    SHAPE = 7
    FACT = 8
    """What must be alike on all ranks: a name and a value."""


class MarkKind(StrEnum):
    """What a mark says the process was doing, from its begin to its end; some are moments."""

    STEP = "step"
    DATA = "data"
    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"
    EVAL = "eval"
    SAVE = "save"
    LOAD = "load"
    COMPILE = "compile"
    SETUP = "setup"
    EXIT = "exit"
    DATA_END = "data_end"
    EXCEPTION = "exception"
    THREAD_DIED = "thread_died"
    MAIN_EXITED = "main_exited"
    CHECK = "check"
    SEARCH = "search"
    BUFFERS = "buffers"
    DEPARTURE = "departure"
    COUNTED = "counted"


class StoreWay(StrEnum):
    """What a call of a store does: puts in what others may wait for, waits, or asks without waiting."""

    SET = "set"
    WAIT = "wait"
    ASK = "ask"


MARK_KINDS = tuple(MarkKind)
"""A mark's code is its index here; new kinds go to the end."""

ENDS = frozenset({MarkKind.EXCEPTION, MarkKind.THREAD_DIED, MarkKind.MAIN_EXITED})
"""Marks that set `Flag.ENDED`."""

STAGE_OF_KIND = {
    MarkKind.DATA: Stage.DATA,
    MarkKind.FORWARD: Stage.FORWARD,
    MarkKind.BACKWARD: Stage.BACKWARD,
    MarkKind.OPTIMIZER: Stage.OPTIMIZER,
    MarkKind.EVAL: Stage.EVAL,
    MarkKind.SAVE: Stage.SAVE,
    MarkKind.LOAD: Stage.LOAD,
    MarkKind.SETUP: Stage.SETUP,
    MarkKind.EXIT: Stage.EXIT,
    MarkKind.CHECK: Stage.CHECK,
    MarkKind.SEARCH: Stage.SEARCH,
}
KIND_OF_STAGE = {stage: kind for kind, stage in STAGE_OF_KIND.items()}

OP_BARRIER, OP_SEND, OP_RECV, OP_WAIT, OP_CREATE, OP_SYNC, OP_COLLECTIVE = 1, 2, 3, 4, 5, 6, 16
COLLECTIVE_OPS = tuple(CollectiveOp)
"""A collective's code is `OP_COLLECTIVE` plus its index here."""
OP_OF_COLLECTIVE = {op: OP_COLLECTIVE + index for index, op in enumerate(COLLECTIVE_OPS)}

SYNC_KINDS = tuple(SyncKind)
"""Why a host waits for its device; the index is the tag of an OP_SYNC."""

REDUCE_OPS: tuple[ReduceOp | None, ...] = (None, *ReduceOp)

DTYPES: tuple[str | None, ...] = (
    None, "float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64",
    "complex128", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "uint16", "uint32", "uint64",
)  # fmt: skip
"""A dtype's code is its index here; 0 is one that this version does not know."""

TRANSPORTS = ("gloo", "nccl")

MAIN_THREAD = 0
"""The number of a process's main thread; others are counted as they come."""


class CallFlag:
    """Bits of a slot's flags."""

    BLOCKING = 1
    LOCAL = 2
    STREAM = 4
    """A wait of the device's stream, not of the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """How much a ring holds. See [Note: a ring's file]."""

    num_groups: int = 256
    num_marks: int = 1024
    num_slots: int = 4096
    table_bytes: int = 256 << 10
    blob_bytes: int = 256 << 10

    @property
    def marks_at(self) -> int:
        """Offset of the marks."""
        return GROUPS_AT + self.num_groups * GROUP_WORDS * 8

    @property
    def slots_at(self) -> int:
        """Offset of the calls' slots."""
        return self.marks_at + (self.num_marks + MAX_DEPTH) * MARK_BYTES

    @property
    def table_at(self) -> int:
        """Offset of the table."""
        return self.slots_at + self.num_slots * SLOT_BYTES

    @property
    def blobs_at(self) -> int:
        """Offset of the first of the two blobs."""
        return self.table_at + self.table_bytes

    @property
    def total_bytes(self) -> int:
        """Size of the file."""
        return self.blobs_at + 2 * self.blob_bytes

    @property
    def is_sane(self) -> bool:
        """Whether a file could have it."""
        counts = (self.num_groups, self.num_marks, self.num_slots, self.table_bytes, self.blob_bytes)
        aligned = self.table_bytes % 8 == 0 and self.blob_bytes % 8 == 0
        return all(0 < count <= MAX_RING_BYTES for count in counts) and aligned and self.total_bytes <= MAX_RING_BYTES


def numbers_of_slots(data: bytes | bytearray, sizes: Geometry) -> list[int]:
    """The numbers of the calls in all slots, by slot; 0 where there is none. `data` is a whole ring's."""
    words = memoryview(data)[sizes.slots_at : sizes.table_at].cast("Q")
    return words[:: SLOT_BYTES // 8].tolist()


def short_kind(op: int, dtype: int) -> int:
    """Micro-batch (none), op and dtype as `SHORT_SLOT` has them."""
    return 0xFFFF | op << 16 | dtype << 24


def check_of(*values: int) -> int:
    """The check word of words that belong together."""
    found = CHECK
    for value in values:
        found ^= value
    return found & MASK
