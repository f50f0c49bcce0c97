"""The bytes of a ring's file that a reading needs; the rest stays zero, which every reader takes for empty.

A watcher reads all rings of a host again and again: of 1.3 MB it needs 0.1 MB when it wants the last few calls.
"""

import os
import struct
from dataclasses import dataclass
from pathlib import Path

from emberward.sources.ring._format import (
    GROUPS_AT,
    HEAD,
    HEAD_CRC_AT,
    MAX_RING_BYTES,
    SLOT_BYTES,
    WORDS_AT,
    Flag,
    Geometry,
    Word,
    numbers_of_slots,
)

NUM_AHEAD = 256
"""Calls that may have been made since the last heartbeat told their number, before all slots are read."""

Read = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Pulse:
    """The words of a ring but for the heartbeat, and whether its main thread has ended, or any by an exception."""

    words: bytes
    has_ended: bool


def pulse_of(path: Path) -> Pulse | None:
    """What changes in a ring's file when its process does something, but for the heartbeat; None when there is no file.

    Two equal answers say that no call of a group began or ended, that no step, phase or name is new, and that torch's
    counts stand. What else may have happened (a mark of a side thread, a wait) only a reading tells.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        data = os.pread(descriptor, GROUPS_AT + 256 * 64, 0)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    at = WORDS_AT + 8 * Word.HEARTBEAT
    flags = data[WORDS_AT + 8 * Word.FLAGS : WORDS_AT + 8 * Word.FLAGS + 1]
    return Pulse(data[:at] + data[at + 8 :], bool(flags and flags[0] & Flag.ENDED))


def bytes_of(path: Path, *, num_events: int | None) -> bytes | bytearray:
    """The file's bytes, as far as its last `num_events` calls need them; all of it for None. Raises OSError."""
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if num_events is None or size > MAX_RING_BYTES or size < GROUPS_AT:
            return _all(file.fileno(), size)
        data = bytearray(size)
        _take(file.fileno(), data, (0, GROUPS_AT))
        sizes = _geometry(data)
        if sizes is None or not sizes.is_sane or sizes.total_bytes != size:
            return _all(file.fileno(), size)
        used = min(_word(data, Word.TABLE_USED), sizes.table_bytes)
        _take(file.fileno(), data, (GROUPS_AT, sizes.slots_at))
        _take(file.fileno(), data, (sizes.table_at, sizes.table_at + used))
        if num_events > 0:
            _take(file.fileno(), data, (sizes.blobs_at, size))
        _take_slots(file.fileno(), data, sizes, max(num_events, NUM_AHEAD))
        return data


def _all(descriptor: int, size: int) -> bytes:
    return os.pread(descriptor, min(size, MAX_RING_BYTES) + 1, 0)


def _geometry(data: bytearray) -> Geometry | None:
    """How much the file holds; unproved: whoever reads the head proves it."""
    if len(data) < HEAD_CRC_AT + 4:
        return None
    counts = HEAD.unpack_from(data)[11:16]
    names = ("num_groups", "num_marks", "num_slots", "table_bytes", "blob_bytes")
    return Geometry(**dict(zip(names, counts, strict=True)))


def _word(data: bytearray, index: int) -> int:
    (value,) = struct.unpack_from("<Q", data, WORDS_AT + 8 * index)
    return int(value)


def _take(descriptor: int, data: bytearray, where: Read) -> None:
    start, end = where
    if end > start:
        os.preadv(descriptor, [memoryview(data)[start:end]], start)


def _take_slots(descriptor: int, data: bytearray, sizes: Geometry, num: int) -> None:
    """The slots of the last `num` calls by the heartbeat's word and of those since; all when that does not fit."""
    told = _word(data, Word.CALLS)
    if told > 0 and num + NUM_AHEAD < sizes.num_slots:
        for first, end in _runs(max(told - num, 0), told + NUM_AHEAD, sizes.num_slots):
            _take(descriptor, data, (sizes.slots_at + first * SLOT_BYTES, sizes.slots_at + end * SLOT_BYTES))
        newest = max(numbers_of_slots(data, sizes), default=0)
        if told <= newest < told + NUM_AHEAD:
            return
    _take(descriptor, data, (sizes.slots_at, sizes.table_at))


def _runs(first: int, end: int, num_slots: int) -> list[Read]:
    """The slots of the calls after number `first` up to number `end`, as one or two runs."""
    low, high = first % num_slots, first % num_slots + (end - first)
    return [(low, high)] if high <= num_slots else [(low, num_slots), (0, high - num_slots)]
