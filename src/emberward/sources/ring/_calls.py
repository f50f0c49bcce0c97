"""The calls of a ring, read, as events."""

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from emberward.events import (
    Barrier,
    Body,
    Collective,
    Event,
    Group,
    GroupCreate,
    HostSync,
    Phase,
    Recv,
    Ref,
    Send,
    State,
)
from emberward.sources._tape import Note, Transport, events_of
from emberward.sources.ring._format import (
    CHECKED_SLOT,
    COLLECTIVE_OPS,
    DTYPES,
    OP_BARRIER,
    OP_COLLECTIVE,
    OP_CREATE,
    OP_RECV,
    OP_SEND,
    OP_SYNC,
    OP_WAIT,
    RAISED,
    REDUCE_OPS,
    SLOT,
    SLOT_BYTES,
    SLOT_DONE_AT,
    SYNC_KINDS,
    CallFlag,
    Geometry,
    check_of,
    numbers_of_slots,
)
from emberward.sources.ring._records import Records

NUM_LAST = 64
"""Calls whose times say when the process moved last."""
UNKNOWN_GROUP = Group(ranks=(), label="unknown group")
"""Stands for the groups that a ring has no room for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """See `RingView` for the fields of the same names. `num_unreadable`: slots of the last calls that do not fit."""

    events: tuple[Event, ...]
    sequences: Mapping[Ref, int]
    numbers: Mapping[Ref, int]
    callers: Mapping[Ref, int]
    failures: frozenset[Ref]
    num_calls: int
    num_unreadable: int
    moved_ns: int
    """When the newest of them began or ended; 0 without any."""


def read_calls(
    data: bytes | bytearray,
    sizes: Geometry,
    records: Records,
    *,
    groups: Mapping[int, Group],
    transport: Transport,
    rank: int | None,
    last: int | None,
    folds_waits: bool = True,
) -> Calls:
    """The calls that a ring's slots hold, the last `last` of them. A process without a rank has none."""
    num_slots, slots_at = sizes.num_slots, sizes.slots_at
    found = [
        (number, slot)
        for slot, number in enumerate(numbers_of_slots(data, sizes))
        if number and (number - 1) % num_slots == slot
    ]
    newest = max(found, default=(0, 0))[0]
    kept = num_slots if last is None else min(last, num_slots)
    offsets = {number: slots_at + slot * SLOT_BYTES for number, slot in found if number > newest - max(kept, NUM_LAST)}
    notes: list[Note] = []
    rows: list[tuple[int, int, int, bool]] = []
    index_of: dict[int, int] = {}
    num_unreadable = 0
    for number in range(max(1, newest - kept + 1), newest + 1):
        row = None if number not in offsets else _row(data, offsets[number])
        if row is None:
            num_unreadable += 1
            continue
        note = _note(data, offsets[number], row, records, groups, index_of)
        if note is not None:
            index_of[number] = len(notes)
            notes.append(note[0])
            rows.append((number, row[4], row[13], note[1]))
    events: list[Event | None] = [None] * len(notes)
    if rank is not None:
        events = list(events_of(notes, rank, transport, folds_waits=folds_waits))
    pairs = [(event, row) for event, row in zip(events, rows, strict=True) if event is not None]
    return Calls(
        events=tuple(event for event, _ in pairs),
        sequences={event.ref: row[1] for event, row in pairs if _meets(event.body)},
        numbers={event.ref: row[0] for event, row in pairs},
        callers={event.ref: row[2] for event, row in pairs},
        failures=frozenset(event.ref for event, row in pairs if row[3]),
        num_calls=newest,
        num_unreadable=num_unreadable,
        moved_ns=max((_moved_ns(data, at) for number, at in offsets.items() if number > newest - NUM_LAST), default=0),
    )


def _moved_ns(data: bytes | bytearray, at: int) -> int:
    row = _row(data, at)
    if row is None:
        return 0
    started, completed, check = struct.unpack_from("<QQQ", data, at + SLOT_DONE_AT)
    return max(row[1], completed if check == check_of(row[0], started, completed) else 0)


def _meets(body: Body) -> bool:
    return isinstance(body, Collective | Barrier | Send | Recv)


def _row(data: bytes | bytearray, at: int) -> tuple[int, ...] | None:
    """The fields of a slot, None when its check does not fit."""
    raw, check = CHECKED_SLOT.unpack_from(data, at)
    return SLOT.unpack(raw) if check == zlib.adler32(raw) else None


def _note(
    data: bytes | bytearray,
    at: int,
    row: tuple[int, ...],
    records: Records,
    groups: Mapping[int, Group],
    index_of: Mapping[int, int],
) -> tuple[Note, bool] | None:
    """The note of a slot and whether the call raised; None for a wait whose call is no longer there."""
    number, issued, _, _, sequence, _, _, _, step, site, _, phase, group, thread, micro_batch, op, _, _, flags = row
    started, completed, check = struct.unpack_from("<QQQ", data, at + SLOT_DONE_AT)
    is_done = completed != 0 and check == check_of(number, started, completed)
    has_raised = is_done and started == RAISED
    stage = records.phases.get(phase, Phase())
    waited = None
    body = None
    if op == OP_WAIT:
        waited = index_of.get(sequence)
        if waited is None:
            return None
    else:
        body = _body(row, groups.get(group, UNKNOWN_GROUP), records)
        if body is None:
            return None
    state = State.COMPLETED if is_done and not has_raised else State.ISSUED
    note = Note(
        thread=thread,
        site=records.sites.get(site),
        phase=Phase(
            step=step if step >= 0 else None,
            micro_batch=micro_batch if micro_batch >= 0 else None,
            stage=stage.stage,
            name=stage.name,
        ),
        body=body,
        is_blocking=bool(flags & CallFlag.BLOCKING) or (waited is not None and not flags & CallFlag.STREAM),
        waited=waited,
        issued_ns=issued,
        started_ns=started if is_done and started and not has_raised else None,
        completed_ns=completed if is_done and not has_raised else None,
        state=state,
    )
    return note, has_raised


def _body(row: tuple[int, ...], group: Group, records: Records) -> Body | None:
    _, _, numel, out_numel, _, peer, tag, batch, _, _, shape, _, _, _, _, op, dtype, reduce_op, flags = row
    dims = records.shapes.get(shape)
    kind = DTYPES[dtype] if dtype < len(DTYPES) else None
    size = numel if numel >= 0 else None
    if op == OP_BARRIER:
        return Barrier(group=group)
    if op == OP_CREATE:
        return GroupCreate(group=group, members=group.ranks if flags & CallFlag.LOCAL else None)
    if op == OP_SYNC:
        return HostSync(kind=SYNC_KINDS[tag]) if 0 <= tag < len(SYNC_KINDS) else None
    if op in (OP_SEND, OP_RECV):
        return (Send if op == OP_SEND else Recv)(
            peer=peer,
            group=group,
            tag=tag if tag >= 0 else None,
            batch=batch if batch >= 0 else None,
            dtype=kind,
            numel=size,
            shape=dims,
        )
    if 0 <= op - OP_COLLECTIVE < len(COLLECTIVE_OPS):
        return Collective(
            op=COLLECTIVE_OPS[op - OP_COLLECTIVE],
            group=group,
            dtype=kind,
            numel=size,
            root=peer if peer >= 0 else None,
            reduce_op=REDUCE_OPS[reduce_op] if reduce_op < len(REDUCE_OPS) else None,
            out_numel=out_numel if out_numel >= 0 else None,
            shape=dims,
        )
    return None
