"""The table of a ring: records that are written once and named by their number."""

import threading
import zlib
from collections.abc import Sequence
from typing import Protocol

from emberward.events import Group, Phase
from emberward.sources.ring._format import MAX_RECORD_BYTES, RECORD, Record

MAX_NAME_BYTES = 1500
"""Bytes of a text that are kept."""


class Area(Protocol):
    """Bytes that can be set."""

    def __setitem__(self, where: slice, data: bytes, /) -> None:
        """Sets them."""


class Table:
    """Appends records to `area` from `start` on, `size` bytes at most, telling `used` how far it is filled."""

    def __init__(self, area: Area, *, start: int, size: int) -> None:
        self._area = area
        self._start = start
        self._size = size
        # A signal's handler may come here while its own thread is here already.
        self._lock = threading.RLock()
        self._ids: dict[tuple[int, bytes], int] = {}
        self._num_records = 0
        self.used = 0
        self.is_full = False

    def text(self, text: str) -> int:
        """The record of a short text."""
        return self.record(Record.TEXT, _clipped(text))

    def problem(self, text: str) -> int:
        """The record of something that could not be recorded."""
        return self.record(Record.PROBLEM, _clipped(text))

    def site(self, file: str, line: int, function: str, through: str | None = None) -> int:
        """The record of a line of the user's program. See `Site`."""
        more = "" if through is None else f"\0{through[-MAX_NAME_BYTES // 4 :]}"
        tail = f"\0{line}\0{function[:200]}{more}".encode("utf-8", "replace")
        return self.record(Record.SITE, file.encode("utf-8", "replace")[-MAX_NAME_BYTES:] + tail)

    def fact(self, name: str, value: str) -> int:
        """The record of something that should be alike on all ranks."""
        return self.record(Record.FACT, _clipped(f"{name[:400]}\0{value[:400]}"))

    def shape(self, dims: Sequence[int]) -> int:
        """The record of a tensor's shape."""
        return self.record(Record.SHAPE, ",".join(map(str, dims)).encode()[:MAX_NAME_BYTES])

    def phase(self, phase: Phase) -> int:
        """The record of a stage and name; step and micro-batch lie in the slots."""
        stage = "" if phase.stage is None else phase.stage.value
        return self.record(Record.PHASE, _clipped(f"{stage}\0{phase.name or ''}"))

    def thread(self, number: int, native_id: int, name: str) -> int:
        """The record of a thread."""
        return self.record(Record.THREAD, f"{number}\0{native_id}\0{name[:200]}".encode("utf-8", "replace"))

    def group(self, group: Group) -> int:
        """The record of a group: ranks as ``first,last,stride`` when they are evenly spaced, else one by one."""
        ranks = group.ranks
        stride = ranks[1] - ranks[0] if len(ranks) > 1 else 1
        if stride > 0 and ranks == tuple(range(ranks[0], ranks[-1] + 1, stride)):
            text = f"r{ranks[0]},{ranks[-1]},{stride}"
        else:
            text = "l" + ",".join(map(str, ranks))
        return self.record(Record.GROUP, f"{group.index}\0{(group.label or '')[:200]}\0{text}".encode())

    def record(self, kind: int, payload: bytes) -> int:
        """The number of the record, appended unless it is there; 0 when there is no room for it."""
        key = (kind, payload)
        found = self._ids.get(key)
        if found is not None:
            return found
        with self._lock:
            size = -(-(RECORD.size + len(payload)) // 8) * 8
            if len(payload) > MAX_RECORD_BYTES or self.used + size > self._size:
                self.is_full = True
                self._ids[key] = 0
                return 0
            at = self._start + self.used
            self.used += size
            self._num_records += 1
            number = self._num_records
            record = RECORD.pack(0, kind, len(payload))[4:] + payload
            self._area[at + 4 : at + 4 + len(record)] = record
            self._area[at : at + 4] = zlib.crc32(record).to_bytes(4, "little")
            self._ids[key] = number
            return number


def _clipped(text: str) -> bytes:
    return text.encode("utf-8", "replace")[:MAX_NAME_BYTES]
