"""Reads a ring. Never raises for what a file holds: what does not fit its check is left out and said in `problems`."""

import json
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from emberward.events import Group, Phase
from emberward.sources._tape import Transport
from emberward.sources.ring._bytes import bytes_of
from emberward.sources.ring._calls import read_calls
from emberward.sources.ring._format import (
    GROUP_WORDS,
    GROUPS_AT,
    HEAD,
    HEAD_CRC_AT,
    MAGIC,
    MAIN_THREAD,
    MARK,
    MARK_BYTES,
    MARK_KINDS,
    MAX_DEPTH,
    MAX_RING_BYTES,
    STAGE_OF_KIND,
    TRANSPORTS,
    VERSION,
    WHOLE_MARK,
    WORDS_AT,
    Flag,
    Geometry,
    GroupWord,
    Word,
    check_of,
)
from emberward.sources.ring._identity import RingIdentity, boot_id
from emberward.sources.ring._records import Records
from emberward.sources.ring._view import Certified, FlightCopy, GroupCount, Mark, RingView

MAX_FLIGHT_BYTES = 64 << 20
"""A copy of the flight recorder that is longer when unpacked is not believed."""
MAX_STORE_BYTES = 1 << 20

MAX_ENDED = 1 << 15
_ENDED: dict[tuple[str, bytes], Mark] = {}
"""Marks that have ended, by their bytes: a watcher reads the same thousand of each rank again and again."""

MAX_TRIES = 3
"""A head that does not fit its check is read again: the process may be writing its rank at this moment."""


def read_ring(path: Path, *, num_events: int | None = None, folds_waits: bool = True) -> RingView:
    """What the ring at `path` holds now; of its calls the last `num_events`, or all that it keeps.

    A wait that is its thread's next call is part of what it waits for, unless `folds_waits` is off.

    A view that is not `is_readable` says in `problems` why there is nothing in it. Blocks on the disk under the file
    alone; ``num_events=0`` reads a tenth of the file, and no copy of the flight recorder.
    """
    for _ in range(MAX_TRIES):
        try:
            data = bytes_of(path, num_events=num_events)
        except OSError as error:
            return _unreadable(path, f"cannot be read: {error.strerror or error}")
        if len(data) > MAX_RING_BYTES:
            return _unreadable(path, f"is longer than {MAX_RING_BYTES} bytes")
        view = view_of(
            data,
            path=path,
            now_ns=time.monotonic_ns(),
            now_unix=time.time(),
            num_events=num_events,
            folds_waits=folds_waits,
        )
        if view.is_readable:
            break
    return view


def view_of(
    data: bytes | bytearray,
    *,
    path: Path,
    now_ns: int,
    now_unix: float,
    num_events: int | None = None,
    boot: str | None = None,
    folds_waits: bool = True,
) -> RingView:
    """What the bytes of a ring say. `boot` names the reader's boot, as `boot_id` does."""
    head = _head_of(data)
    if isinstance(head, str):
        return _unreadable(path, head)
    identity, sizes, transport = head
    is_here = identity.boot_id == (boot_id() if boot is None else boot)

    def age_of(then_ns: int) -> float | None:
        """Seconds since; from the other host's wall clock when its monotonic one is not ours."""
        if then_ns == 0:
            return None
        since_began = (then_ns - identity.began_ns) / 1e9
        age = (now_ns - then_ns) / 1e9 if is_here else now_unix - identity.began_unix - since_began
        return max(age, 0.0)

    words = struct.unpack_from("<64Q", data, WORDS_AT)
    records = Records(data, start=sizes.table_at, size=min(words[Word.TABLE_USED], sizes.table_bytes))
    problems = list(records.problems)
    if words[Word.FLAGS] & Flag.TABLE_FULL:
        problems.append("its table of names is full: newer lines and groups have none")
    if words[Word.FLAGS] & Flag.GROUPS_FULL:
        problems.append(f"more than {sizes.num_groups} groups: calls of the others are not told apart")
    groups, counts = _groups_of(data, sizes, records)
    marks = _marks_of(data, sizes, records, path, depth=words[Word.DEPTH])
    step = words[Word.STEP] - 1 if 0 < words[Word.STEP] <= 1 << 62 else None
    calls = read_calls(
        data,
        sizes,
        records,
        groups=groups,
        transport=transport,
        rank=identity.rank,
        last=num_events,
        folds_waits=folds_waits,
    )
    open_marks = [mark for mark in marks if mark.ended_ns is None and mark.thread == MAIN_THREAD]
    flight = _flight_of(data, sizes, words)
    return RingView(
        path=path,
        read_unix=now_unix,
        read_ns=now_ns,
        rank=identity.rank,
        world_size=identity.world_size,
        local_rank=identity.local_rank,
        pid=identity.pid,
        start_ticks=identity.start_ticks,
        host=identity.host,
        boot_id=identity.boot_id,
        began_unix=identity.began_unix,
        began_ns=identity.began_ns,
        heartbeat_age_s=age_of(words[Word.HEARTBEAT]),
        step=step,
        phase=_phase_of(open_marks[-1] if open_marks else None, step),
        phase_age_s=age_of(words[Word.PHASE_SINCE]),
        moved_age_s=age_of(max([words[Word.MOVED], calls.moved_ns, *(_moved_ns(mark) for mark in marks)])),
        marks=marks,
        groups=counts,
        events=calls.events,
        sequences=calls.sequences,
        numbers=calls.numbers,
        callers=calls.callers,
        failures=calls.failures,
        num_calls=calls.num_calls,
        threads=records.threads,
        sites=tuple(records.sites.values()),
        facts=records.facts,
        certificate=_certificate_of(words),
        flight=flight,
        store=() if words[Word.STORE] == 0 else None if flight is None else flight.store,
        problems=tuple(problems),
        is_complete=calls.num_calls <= sizes.num_slots and calls.num_unreadable == 0,
    )


def _unreadable(path: Path, why: str) -> RingView:
    return RingView(
        path=path,
        read_unix=time.time(),
        read_ns=time.monotonic_ns(),
        problems=(f"{path.name} {why}",),
        is_readable=False,
    )


def _text(data: bytes | bytearray) -> str:
    return data.rstrip(b"\0").decode("utf-8", "replace")


def _head_of(data: bytes | bytearray) -> tuple[RingIdentity, Geometry, Transport] | str:
    """Who wrote, how much the file holds, and whose rules its lanes follow; or why that cannot be said."""
    if len(data) < GROUPS_AT or not data.startswith(MAGIC):
        return "is no ring"
    head = data[: HEAD.size]
    fields = HEAD.unpack(head)
    if fields[1] != VERSION:
        return f"has version {fields[1]}; this program reads {VERSION}"
    if int.from_bytes(data[HEAD_CRC_AT : HEAD_CRC_AT + 4], "little") != zlib.crc32(head):
        return "has a damaged head"
    rank, world, local, pid, ticks, began_unix, began, boot, host = fields[2:11]
    num_groups, num_marks, num_slots, table_bytes, blob_bytes = fields[11:16]
    sizes = Geometry(
        num_groups=num_groups, num_marks=num_marks, num_slots=num_slots, table_bytes=table_bytes, blob_bytes=blob_bytes
    )
    if not sizes.is_sane or sizes.total_bytes != len(data):
        return f"has {len(data)} bytes where its head says {sizes.total_bytes}"
    identity = RingIdentity(
        rank=rank if rank >= 0 else None,
        world_size=world if world >= 0 else None,
        local_rank=local if local >= 0 else None,
        pid=pid,
        start_ticks=ticks or None,
        host=_text(host),
        boot_id=_text(boot),
        began_unix=began_unix / 1e9,
        began_ns=began,
    )
    is_known = fields[18] < len(TRANSPORTS)
    return identity, sizes, Transport(TRANSPORTS[fields[18]]) if is_known else Transport.GLOO


def _groups_of(
    data: bytes | bytearray, sizes: Geometry, records: Records
) -> tuple[dict[int, Group], dict[Group, GroupCount]]:
    """The groups by their number, and what was counted of each."""
    groups: dict[int, Group] = {}
    counts: dict[Group, GroupCount] = {}
    for number in range(1, sizes.num_groups + 1):
        words = struct.unpack_from(f"<{GROUP_WORDS}Q", data, GROUPS_AT + (number - 1) * GROUP_WORDS * 8)
        group = records.groups.get(words[GroupWord.RECORD])
        if words[GroupWord.RECORD] == 0:
            break
        if group is None:
            continue
        groups[number] = group
        sequence = words[GroupWord.SEQUENCE]
        counts[group] = GroupCount(
            issued=words[GroupWord.ISSUED],
            completed=words[GroupWord.COMPLETED],
            p2p_issued=words[GroupWord.P2P_ISSUED],
            p2p_completed=words[GroupWord.P2P_COMPLETED],
            sequence=sequence - 1 if sequence else None,
            moved_ns=words[GroupWord.MOVED] or None,
        )
    return groups, counts


def _marks_of(
    data: bytes | bytearray, sizes: Geometry, records: Records, path: Path, *, depth: int
) -> tuple[Mark, ...]:
    """The marks in the order in which they began."""
    found: dict[int, Mark] = {}
    for slot, mark in _marks_at(data, sizes, records, path, range(sizes.num_marks)):
        if (mark.number - 1) % sizes.num_marks == slot:
            found[mark.number] = mark
    deepest = range(sizes.num_marks, sizes.num_marks + min(depth, MAX_DEPTH))
    for _, mark in _marks_at(data, sizes, records, path, deepest):
        found.setdefault(mark.number, mark)
    return tuple(found[number] for number in sorted(found))


def _marks_at(
    data: bytes | bytearray, sizes: Geometry, records: Records, path: Path, slots: range
) -> Iterator[tuple[int, Mark]]:
    texts, sites, start, where = records.texts, records.sites, sizes.marks_at, str(path)
    for slot in slots:
        at = start + slot * MARK_BYTES
        raw = bytes(data[at : at + MARK_BYTES])
        known = _ENDED.get((where, raw))
        if known is not None:
            yield slot, known
            continue
        number, began, step, name, site, thread, kind, crc, ended, check = WHOLE_MARK.unpack(raw)
        if number == 0 or crc != zlib.crc32(raw[: MARK.size]) or kind >= len(MARK_KINDS):
            continue
        mark = Mark(
            number=number,
            kind=MARK_KINDS[kind],
            step=step if step >= 0 else None,
            name=texts.get(name),
            site=sites.get(site),
            thread=thread,
            began_ns=began,
            ended_ns=ended if check == check_of(number, ended) else None,
        )
        # A mark that has ended, and whose names have been written, stays what it is.
        if mark.ended_ns is not None and (name == 0 or name in texts) and (site == 0 or site in sites):
            if len(_ENDED) >= MAX_ENDED:
                _ENDED.clear()
            _ENDED[where, raw] = mark
        yield slot, mark


def _moved_ns(mark: Mark) -> int:
    return mark.began_ns if mark.ended_ns is None else mark.ended_ns


def _phase_of(mark: Mark | None, step: int | None) -> Phase:
    if mark is None:
        return Phase(step=step)
    stage = STAGE_OF_KIND.get(mark.kind)
    return Phase(step=step, stage=stage, name=mark.name or (mark.kind.value if stage is None else None))


def _certificate_of(words: tuple[int, ...]) -> Certified | None:
    found = None
    for cell in (Word.CERTIFIED, Word.CERTIFIED + 4):
        position, digest, check = words[cell : cell + 3]
        if check == check_of(position, digest, 1) and (found is None or position > found.position):
            found = Certified(position=position, digest=digest)
    return found


def _store_of(packed: bytes, number: int) -> tuple[Any, ...] | None:
    """The calls of stores behind a copy; None when the process has made others since."""
    try:
        found = json.loads(zlib.decompressobj().decompress(packed, MAX_STORE_BYTES) or b"{}")
    except (zlib.error, ValueError):
        return None
    is_last = isinstance(found, dict) and found.get("number") == number and isinstance(found.get("calls"), list)
    return tuple(found["calls"]) if is_last else None


def _flight_of(data: bytes | bytearray, sizes: Geometry, words: tuple[int, ...]) -> FlightCopy | None:
    cells = [words[Word.FLIGHT + 4 * index : Word.FLIGHT + 4 * index + 4] for index in (0, 1)]
    for index in sorted((0, 1), key=lambda index: -cells[index][0]):
        number, taken, length, check = cells[index]
        if number == 0 or length > sizes.blob_bytes:
            continue
        start = sizes.blobs_at + index * sizes.blob_bytes
        packed = data[start : start + length]
        if check != check_of(number, taken, length, zlib.crc32(packed)):
            continue
        try:
            unpacker = zlib.decompressobj()
            whole = unpacker.decompress(packed, MAX_FLIGHT_BYTES)
        except zlib.error:
            continue
        if unpacker.eof:
            return FlightCopy(
                data=whole, taken_unix=taken / 1e9, store=_store_of(unpacker.unused_data, words[Word.STORE])
            )
    return None
