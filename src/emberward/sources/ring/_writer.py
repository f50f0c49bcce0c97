"""Writes a ring. What is called for every call or mark is short: `benchmarks/recorder_overhead.py` holds its price."""

import itertools
import mmap
import os
import sys
import threading
import time
import zlib
from pathlib import Path

from emberward.events import Group, Phase
from emberward.sources.ring._format import (
    CHECK,
    CHECKED_SLOT,
    DONE,
    ENDS,
    GROUP_WORDS,
    GROUPS_AT,
    HEAD,
    HEAD_CRC_AT,
    MAGIC,
    MAIN_THREAD,
    MARK,
    MARK_BYTES,
    MARK_CRC_AT,
    MARK_END_AT,
    MARK_KINDS,
    MASK,
    MAX_DEPTH,
    OP_BARRIER,
    OP_COLLECTIVE,
    OP_RECV,
    OP_SEND,
    RAISED,
    SLOT,
    SLOT_BYTES,
    SLOT_DONE_AT,
    STAGE_OF_KIND,
    TRANSPORTS,
    VERSION,
    WORDS_AT,
    Flag,
    Geometry,
    GroupWord,
    MarkKind,
    Word,
    check_of,
)
from emberward.sources.ring._identity import RingIdentity
from emberward.sources.ring._table import Table

_FIRST_GROUP = GROUPS_AT // 8 - GROUP_WORDS
ISSUED = _FIRST_GROUP + GroupWord.ISSUED
COMPLETED = _FIRST_GROUP + GroupWord.COMPLETED
"""Where the word of a group lies among the words of the file, less its number times `GROUP_WORDS`."""
_P2P_ISSUED = _FIRST_GROUP + GroupWord.P2P_ISSUED
_P2P_COMPLETED = _FIRST_GROUP + GroupWord.P2P_COMPLETED
_LIVE = WORDS_AT // 8

_pack_slot, _put_slot, _check, _put_done = SLOT.pack, CHECKED_SLOT.pack_into, zlib.adler32, DONE.pack_into
_now_ns, _ident = time.monotonic_ns, threading.get_ident

_CODES = {kind: code for code, kind in enumerate(MARK_KINDS)}

MAX_THREADS = 60_000
"""Threads that are told apart; all after these are one."""


class RingWriter:
    """Writes what one process does into the file at `path`, which must not exist yet. Raises OSError when it cannot.

    The file is allocated in full before it is mapped: a full disk under a map would kill the process. Threads may share
    a writer. No method raises for what it is given, and none blocks but on the disk under the file.

    Attributes without an underscore serve `sources._issue`, which writes what `call` and `done` write without calling.
    """

    def __init__(self, path: Path, identity: RingIdentity, *, geometry: Geometry | None = None) -> None:
        self.path = path
        self.identity = identity
        self.geometry = sizes = geometry or Geometry()
        self.area = _allocated(path, sizes.total_bytes)
        self._view = memoryview(self.area)
        self.words = self._view.cast("Q")
        self._halves = self._view.cast("I")
        self._table = Table(self.area, start=sizes.table_at, size=sizes.table_bytes)
        self.num_slots = sizes.num_slots
        self.slots_at = sizes.slots_at
        starts = range(sizes.slots_at, sizes.slots_at + sizes.num_slots * SLOT_BYTES, SLOT_BYTES)
        self.places = zip(itertools.count(1), itertools.cycle(starts), strict=False)
        """The number of each next call, and where its slot begins."""
        self._mark_numbers = itertools.count(1)
        self._num_flights = 0
        main = threading.main_thread()
        self._main = main.ident
        self.threads = {main.ident: MAIN_THREAD}
        self._groups: dict[tuple[tuple[int, ...], int], int] = {}
        self.issued = [0] * (sizes.num_groups + 1)
        self._transfers: dict[tuple[int, int, int, int], int] = {}
        self._open: list[tuple[int, int]] = []
        self._phases: dict[tuple[MarkKind | None, str | None], int] = {(None, None): 0}
        self.now_phase = 0
        self.now_step = -1
        self._transport = 0
        self.last_number = 0
        # In a forked process Python (until 3.13) keeps the parent's number of the main thread; on Linux it is the pid.
        native_id = identity.pid if sys.platform == "linux" else main.native_id or 0
        self._noted(self._table.thread(MAIN_THREAD, native_id, main.name))
        self._write_head()

    # -- who writes --------------------------------------------------------------------------------------------------

    def identify(self, identity: RingIdentity, *, transport: str | None = None) -> None:
        """Says who writes, once the process knows its rank; `transport` is torch's name of the backend."""
        self.identity = identity
        if transport is not None:
            self._transport = next((i for i, name in enumerate(TRANSPORTS) if name in transport.lower()), 0)
        self._write_head()

    def _write_head(self) -> None:
        who, sizes = self.identity, self.geometry
        head = HEAD.pack(
            MAGIC,
            VERSION,
            -1 if who.rank is None else who.rank,
            -1 if who.world_size is None else who.world_size,
            -1 if who.local_rank is None else who.local_rank,
            who.pid,
            who.start_ticks or 0,
            int(who.began_unix * 1e9),
            who.began_ns,
            who.boot_id.encode("ascii", "replace")[:32],
            who.host.encode("utf-8", "replace")[:64],
            sizes.num_groups,
            sizes.num_marks,
            sizes.num_slots,
            sizes.table_bytes,
            sizes.blob_bytes,
            0,
            0,
            self._transport,
        )
        self.area[: HEAD_CRC_AT + 4] = head + zlib.crc32(head).to_bytes(4, "little")

    # -- names -------------------------------------------------------------------------------------------------------

    def site(self, file: str, line: int, function: str, through: str | None = None) -> int:
        """The number of a line of the user's program, for `call` and `begin`."""
        return self._noted(self._table.site(file, line, function, through))

    def shape(self, dims: tuple[int, ...]) -> int:
        """The number of a tensor's shape, for `call`."""
        return self._noted(self._table.shape(dims))

    def fact(self, name: str, value: str) -> None:
        """Says something that should be alike on all ranks; the last value of a name counts."""
        self._noted(self._table.fact(name, value))

    def problem(self, text: str) -> None:
        """Says what could not be recorded, once for each text."""
        self._noted(self._table.problem(text))

    @property
    def num_groups(self) -> int:
        """Groups that were given a number or refused one."""
        return len(self._groups)

    def group(self, group: Group) -> int:
        """The number of a group, from 1; 0 when there are more than the ring counts."""
        key = (group.ranks, group.index)
        found = self._groups.get(key)
        if found is None:
            number = len(self._groups) + 1
            record = self._noted(self._table.group(group)) if number <= self.geometry.num_groups else 0
            found = self._groups.setdefault(key, number if record else 0)
            if found:
                self.words[_FIRST_GROUP + found * GROUP_WORDS + GroupWord.RECORD] = record
            else:
                self.words[_LIVE + Word.FLAGS] |= Flag.GROUPS_FULL
        return found

    def thread(self, ident: int) -> int:
        """The number of the calling thread, whose identity is `ident`; kept in `threads`."""
        found = self.threads.setdefault(ident, min(len(self.threads), MAX_THREADS))
        self._noted(self._table.thread(found, threading.get_native_id(), threading.current_thread().name))
        return found

    def _noted(self, record: int) -> int:
        self.words[_LIVE + Word.TABLE_USED] = self._table.used
        if self._table.is_full:
            self.words[_LIVE + Word.FLAGS] |= Flag.TABLE_FULL
        return record

    # -- calls -------------------------------------------------------------------------------------------------------

    def call(
        self,
        op: int,
        group: int,
        numel: int = -1,
        dtype: int = 0,
        site: int = 0,
        flags: int = 0,
        peer: int = -1,
        out_numel: int = -1,
        reduce_op: int = 0,
        shape: int = 0,
        tag: int = -1,
        batch: int = -1,
        target: int = 0,
        micro_batch: int = -1,
    ) -> int:
        """Writes that the calling thread makes a call now; its number, for `done`.

        The codes of op, dtype, reduce op and flags are those of `_format`; `group`, `site` and `shape` are numbers that
        this writer gave. `peer` is a global rank: the peer of a transfer, the root of a collective. `target` is the
        call that a wait waits for.
        """
        number, at = next(self.places)
        self.last_number = number
        if op >= OP_COLLECTIVE or op == OP_BARRIER:
            sequence = self.issued[group] = self.issued[group] + 1
            if group:
                self.words[ISSUED + group * GROUP_WORDS] = sequence
        elif op in (OP_SEND, OP_RECV):
            key = (op, group, peer, tag)
            sequence = self._transfers[key] = self._transfers.get(key, 0) + 1
            if group:
                self.words[_P2P_ISSUED + group * GROUP_WORDS] += 1
        else:
            sequence = target
        ident = _ident()
        thread = self.threads.get(ident)
        if thread is None:
            thread = self.thread(ident)
        slot = _pack_slot(
            number,
            _now_ns(),
            numel,
            out_numel,
            sequence,
            peer,
            tag,
            batch,
            self.now_step,
            site,
            shape,
            self.now_phase,
            group,
            thread,
            micro_batch,
            op,
            dtype,
            reduce_op,
            flags,
        )
        _put_slot(self.area, at, slot, _check(slot))
        return number

    def done(
        self,
        number: int,
        group: int = 0,
        *,
        is_transfer: bool = False,
        started_ns: int = 0,
        completed_ns: int | None = None,
    ) -> None:
        """Writes that call `number` has completed now, or then; counts it for `group` unless that is 0."""
        now = _now_ns() if completed_ns is None else completed_ns
        if group:
            self.words[(_P2P_COMPLETED if is_transfer else COMPLETED) + group * GROUP_WORDS] += 1
        if self.last_number - number < self.num_slots:
            at = self.slots_at + (number - 1) % self.num_slots * SLOT_BYTES + SLOT_DONE_AT
            _put_done(self.area, at, started_ns, now, CHECK ^ number ^ started_ns ^ now)

    def raised(self, number: int) -> None:
        """Writes that call `number` raised instead of completing."""
        self.done(number, started_ns=RAISED)

    # -- marks -------------------------------------------------------------------------------------------------------

    def step(self, step: int) -> None:
        """What follows belongs to `step`."""
        self.now_step = step
        self.words[_LIVE + Word.STEP] = step + 1

    def phase(self, phase: Phase) -> None:
        """What follows belongs to `phase`, until the next mark of the main thread begins or ends."""
        self.now_phase = self._noted(self._table.phase(phase))
        if phase.step is not None:
            self.step(phase.step)

    def begin(self, kind: MarkKind, name: str | None = None, *, site: int = 0) -> int:
        """Writes that the calling thread begins `kind` now; its number, for `end`."""
        now = time.monotonic_ns()
        number = self._mark(kind, name, site, now)
        if threading.get_ident() == self._main and len(self._open) < MAX_DEPTH:
            self._mark(kind, name, site, now, number=number, slot=self.geometry.num_marks + len(self._open))
            phase = self._phases.get((kind, name))
            if phase is None:
                stage = STAGE_OF_KIND.get(kind)
                shown = Phase(stage=stage, name=name or (kind.value if stage is None else None))
                phase = self._phases[(kind, name)] = self._noted(self._table.phase(shown))
            self._open.append((number, self.now_phase))
            self.now_phase = phase
            self.words[_LIVE + Word.DEPTH] = len(self._open)
            self.words[_LIVE + Word.PHASE_SINCE] = now
        return number

    def end(self, number: int) -> None:
        """Writes that the mark ends now, and with it those that were begun inside it."""
        now = time.monotonic_ns()
        self._end_mark(number, now)
        if threading.get_ident() == self._main and any(number == open_number for open_number, _ in self._open):
            while True:
                last, self.now_phase = self._open.pop()
                if last == number:
                    break
                self._end_mark(last, now)
            self.words[_LIVE + Word.DEPTH] = len(self._open)
            self.words[_LIVE + Word.PHASE_SINCE] = now

    def moment(self, kind: MarkKind, name: str | None = None, *, site: int = 0, began_ns: int | None = None) -> None:
        """Writes something that ends now and began at `began_ns`, or now."""
        now = time.monotonic_ns()
        self._end_mark(self._mark(kind, name, site, now if began_ns is None else began_ns), now)
        if kind in ENDS:
            self.words[_LIVE + Word.FLAGS] |= Flag.ENDED

    def _mark(
        self, kind: MarkKind, name: str | None, site: int, now: int, *, number: int = 0, slot: int | None = None
    ) -> int:
        number = number or next(self._mark_numbers)
        slot = (number - 1) % self.geometry.num_marks if slot is None else slot
        offset = self.geometry.marks_at + slot * MARK_BYTES
        ident = threading.get_ident()
        thread = self.threads.get(ident)
        if thread is None:
            thread = self.thread(ident)
        text = 0 if name is None else self._noted(self._table.text(name))
        MARK.pack_into(self.area, offset, number, now, self.now_step, text, site, thread, _CODES[kind])
        self._halves[(offset + MARK_CRC_AT) >> 2] = zlib.crc32(self._view[offset : offset + MARK.size])
        return number

    def _end_mark(self, number: int, now: int) -> None:
        offset = self.geometry.marks_at + (number - 1) % self.geometry.num_marks * MARK_BYTES
        if self.words[offset >> 3] == number:
            self.words[(offset + MARK_END_AT) >> 3] = now
            self.words[(offset + MARK_END_AT + 8) >> 3] = check_of(number, now)

    # -- from beside the main thread ---------------------------------------------------------------------------------

    def beat(self) -> None:
        """Writes that the process runs Python code now, and how many calls it has made."""
        self.words[_LIVE + Word.CALLS] = self.last_number
        self.words[_LIVE + Word.HEARTBEAT] = time.monotonic_ns()

    def sequence(self, group: int, value: int) -> bool:
        """Writes torch's own count of a group's collectives; whether it has moved since the last time."""
        at = _FIRST_GROUP + group * GROUP_WORDS
        if group == 0 or self.words[at + GroupWord.SEQUENCE] == value + 1:
            return False
        self.words[at + GroupWord.SEQUENCE] = value + 1
        self.words[at + GroupWord.MOVED] = self.words[_LIVE + Word.MOVED] = time.monotonic_ns()
        return True

    def certify(self, position: int, digest: int) -> None:
        """Writes how far along its certificate the rank is; `digest` has 64 bits."""
        at = _LIVE + Word.CERTIFIED + (position & 1) * 4
        self.words[at] = position
        self.words[at + 1] = digest & MASK
        self.words[at + 2] = check_of(position, digest & MASK, 1)

    def store(self, number: int) -> None:
        """Writes how often what the process put into stores, or waits for there, has changed."""
        self.words[_LIVE + Word.STORE] = number

    def flight(self, data: bytes, store: bytes = b"") -> bool:
        """Keeps a copy of torch's flight recorder and the calls of stores; False when there is no room for it."""
        packed = zlib.compress(data, 1) + zlib.compress(store, 1)
        if len(packed) > self.geometry.blob_bytes:
            return False
        self._num_flights += 1
        number, taken = self._num_flights, time.time_ns()
        cell = _LIVE + Word.FLIGHT + (number & 1) * 4
        start = self.geometry.blobs_at + (number & 1) * self.geometry.blob_bytes
        self.words[cell + 3] = 0
        self.area[start : start + len(packed)] = packed
        self.words[cell] = number
        self.words[cell + 1] = taken
        self.words[cell + 2] = len(packed)
        self.words[cell + 3] = check_of(number, taken, len(packed), zlib.crc32(packed))
        return True

    def close(self) -> None:
        """Lets go of the file, which stays."""
        for view in (self.words, self._halves, self._view):
            view.release()
        self.area.close()


def _allocated(path: Path, size: int) -> mmap.mmap:
    """A map of a new file whose every byte has its place on the disk."""
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
        else:
            os.write(descriptor, bytes(size))
        # Every page is mapped now: no call pays for it later.
        return mmap.mmap(descriptor, size, flags=mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0))
    except OSError:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)
