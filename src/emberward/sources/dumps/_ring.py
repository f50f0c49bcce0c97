"""A ring in the shape of a flight-recorder dump, so that the judge of dumps judges what a ring holds too.

[Note: calls below Python]
The ring holds what passed torch's Python classes; DDP's reducer and functional collectives call below. Torch counts
those too (`GroupCount.sequence`), and its own flight recorder holds them, of which the ring keeps a copy. So for a
group of which torch counts more calls than the ring holds, the copy's rows stand in for the ring's, when it is as new
as the last call and holds as many as torch counts; else the count alone tells how far the rank has come.
"""

import json
from collections.abc import Mapping
from typing import Any

from emberward.diagnose import Frame, user_frame
from emberward.events import Barrier, Collective, Event, Group, Recv, Send, Site
from emberward.sources.dumps._unpickle import load_plain
from emberward.sources.ring import GroupCount, RingView

MAX_CALLS = 400
"""Newest calls of a rank that are judged where it stands still."""
MAX_JOB_CALLS = 1 << 17
"""Newest calls of a job that are judged for what its ranks went on from: a skipped call whose peers are alike."""
RING_BACKEND = "live"
"""What stands for a backend in the rows that were made of a ring."""
FRESH_S = 1.5
"""A copy of the flight recorder older than the rank's last call by more than this is not used."""
_USER_FRAMES = 2
# torch's recorder uses the names of c10/core/ScalarType.h, the ring those of Python.
_DTYPES = {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64",
    "Int": "int32", "Short": "int16", "Char": "int8", "Byte": "uint8", "Bool": "bool",
}  # fmt: skip


def ring_group_name(group: Group) -> str:
    ranks = group.ranks
    shown = ",".join(map(str, ranks)) if len(ranks) <= 32 else f"{ranks[0]}..{ranks[-1]}x{len(ranks)}"
    return f"{shown}#{group.index}"


def ring_flight(view: RingView, *, is_past: bool = False) -> dict[str, Any]:
    """The calls of a ring as a flight-recorder dump. Roots and reductions stand in the rows' names. Pure.

    `is_past`: all that the job's size allows, as for what its ranks went on from; else the newest `MAX_CALLS`.
    """
    calls = [event for event in view.events if isinstance(event.body, Collective | Barrier | Send | Recv)]
    number = max(MAX_CALLS, MAX_JOB_CALLS // (view.world_size or MAX_JOB_CALLS)) if is_past else MAX_CALLS
    return _flight(view, calls[-number:])


def _unix_ns(view: RingView, ns: int | None) -> int:
    """The wall-clock time of a moment of the rank's own clock: by its start, which holds on any host and boot."""
    if ns is None or view.began_unix is None or view.began_ns is None:
        return 0
    return int(view.began_unix * 1e9) + ns - view.began_ns


def _flight(view: RingView, calls: list[Event]) -> dict[str, Any]:
    groups = list(view.groups)
    for event in calls:
        group = getattr(event.body, "group", None)
        if group is not None and group not in groups:
            groups.append(group)
    ids = {group: index for index, group in enumerate(groups)}
    world = tuple(range(view.world_size)) if view.world_size else ()
    hidden = {group for group, count in view.groups.items() if has_hidden(count)}
    copies = _copied(view, hidden, ids)
    entries: list[dict[str, Any]] = []
    ended = _ended(view, calls)
    for event in calls:
        group = getattr(event.body, "group", None)
        is_p2p = isinstance(event.body, Send | Recv)
        if group is None and is_p2p:
            group = next((g for g in groups if g.ranks == world), None)
        if group is None or (group in hidden and not is_p2p):
            continue
        entry = _entry(view, event, group, ids[group])
        if entry is not None:
            if not is_p2p and entry["collective_seq_id"] < ended.get(group, 0):
                entry |= {"retired": True, "state": "completed"}
            entries.append(entry)
    for rows, _ in copies.values():
        entries += rows
    entries = _numbered(entries)
    status = {
        str(ids[group]): copies[group][1]
        if group in copies
        else _status(count, ended.get(group, 0), is_hidden=group in hidden)
        for group, count in view.groups.items()
    }
    return {
        "version": "2.10",
        "pg_config": {
            ring_group_name(group): {"desc": _label(group), "ranks": list(group.ranks)}
            for group in groups
            if group.ranks
        },
        "pg_ids": {ring_group_name(group): number for group, number in ids.items() if group.ranks},
        "pg_status": status,
        "entries": entries,
        "store": None if view.store is None else [_after(row, entries) for row in view.store],
    }


def _after(row: Any, entries: list[dict[str, Any]]) -> Any:
    """A row of a store's call; the newest call before it by its number in `entries`, which count anew."""
    match row:
        case [way, keys, file, line, name, int() as after, is_in]:
            records = [entry["record_id"] for entry in entries if 0 < entry["ring_number"] <= after]
            return [way, keys, file, line, name, max(records, default=0), is_in]
    return row


def _numbered(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows in the order in which they were made; the ring's and the copy's count apart."""
    ordered = sorted(entries, key=lambda entry: (entry["time_created_ns"], entry["record_id"]))
    for number, entry in enumerate(ordered, start=1):
        entry["ring_number"] = entry["record_id"] if entry["profiling_name"].startswith(f"{RING_BACKEND}:") else 0
        entry["record_id"] = number
    return ordered


def _label(group: Group) -> str:
    return group.label or ("group" if group.index == 0 else f"group {group.index}")


def has_hidden(count: GroupCount | None) -> bool:
    """Whether torch counts more calls than the ring holds; gloo counts sends and receives too (torch 2.13)."""
    return count is None or (count.sequence is not None and count.sequence > count.issued + count.p2p_issued)


def _ended(view: RingView, calls: list[Event]) -> dict[Group, int]:
    """Of each group the number of its newest collective that has ended: nobody waits in one before it.

    Of a call that no one waits for, as of functional collectives, the end is not recorded.
    """
    found: dict[Group, int] = {}
    for event in calls:
        if isinstance(event.body, Collective | Barrier) and event.completed_ns is not None:
            group = event.body.group
            found[group] = max(found.get(group, 0), view.sequences.get(event.ref, 0))
    return found


def _status(count: GroupCount, ended: int, *, is_hidden: bool) -> dict[str, int]:
    if is_hidden and count.sequence is not None:
        return {"last_enqueued_collective": count.sequence, "last_completed_collective": count.sequence - 1}
    done = min(max(count.completed, ended), count.issued)
    return {"last_enqueued_collective": count.issued, "last_completed_collective": done}


def _entry(view: RingView, event: Event, group: Group, pg_id: int) -> dict[str, Any] | None:
    body = event.body
    is_done = event.completed_ns is not None
    seq = view.sequences.get(event.ref, 0)
    number = view.numbers.get(event.ref, 0)
    dtype = getattr(body, "dtype", None)
    numel = getattr(body, "numel", None)
    match body:
        case Collective():
            root = "" if body.root is None else f" root={body.root}"
            reduce = "" if body.reduce_op is None else f" by={body.reduce_op.value}"
            name = f"{RING_BACKEND}:{body.op.value}{root}{reduce}"
        case Barrier():
            name = f"{RING_BACKEND}:barrier"
        case Send(peer=peer) | Recv(peer=peer):
            if peer not in group.ranks or event.rank not in group.ranks:
                return None
            own, other = group.ranks.index(event.rank), group.ranks.index(peer)
            name = (
                f"{RING_BACKEND}:send {own}->{other}"
                if isinstance(body, Send)
                else f"{RING_BACKEND}:recv {own}<-{other}"
            )
            # Transfers of one batch are issued as one call: they share a number, single ones have their own.
            seq = -1 - body.batch if body.batch is not None else number
        case _:
            return None
    site = event.site
    return {
        "record_id": number,
        "pg_id": pg_id,
        "process_group": [ring_group_name(group), _label(group)],
        "collective_seq_id": seq,
        "profiling_name": name,
        "input_sizes": [] if numel is None else [[numel]],
        "output_sizes": [],
        "input_dtypes": [] if dtype is None else [dtype],
        "output_dtypes": [],
        "time_created_ns": _unix_ns(view, event.issued_ns),
        "retired": is_done,
        "state": "completed" if is_done else "scheduled",
        "is_p2p": isinstance(body, Send | Recv),
        "tag": body.tag if isinstance(body, Send | Recv) else None,
        "step": event.phase.step,
        "frames": [] if site is None else _frames(site),
    }


def _frames(site: Site) -> list[dict[str, Any]]:
    """The frames of a line as torch's recorder writes them: a package's that the user's line called, and that line."""
    user = {"name": site.function or "?", "filename": site.file, "line": site.line}
    if site.through is None:
        return [user]
    file, _, line = site.through.rpartition(":")
    return [{"name": "?", "filename": file, "line": int(line)}, user]


def _copied(
    view: RingView, hidden: set[Group], ids: Mapping[Group, int]
) -> dict[Group, tuple[list[dict[str, Any]], dict[str, int]]]:
    """Rows and counts of the flight recorder's copy for groups with hidden calls. See [Note: calls below Python]."""
    copy = view.flight
    if copy is None or not hidden:
        return {}
    still = view.moved_age_s
    if still is not None and copy.taken_unix < view.read_unix - still - FRESH_S:
        return {}
    try:
        dump = _plain(copy.data)
        entries, status = dump["entries"], dump.get("pg_status", {})
        names = {int(e["pg_id"]): tuple(e["process_group"]) for e in entries}
    except (ValueError, KeyError, TypeError):
        return {}
    out: dict[Group, tuple[list[dict[str, Any]], dict[str, int]]] = {}
    used: set[int] = set()
    for group in sorted(hidden, key=lambda g: -len(g.ranks)):
        pg_id = _torch_group(group, view, names, status, used)
        if pg_id is None:
            continue
        used.add(pg_id)
        counts = status.get(pg_id, status.get(str(pg_id), {}))
        if counts.get("last_enqueued_collective", -1) < (view.groups[group].sequence or 0):
            # torch has counted calls since: what is open in the copy has long ended.
            continue
        rows = [_row(e, group, ids[group]) for e in entries if e["pg_id"] == pg_id and not e.get("is_p2p")]
        out[group] = (rows[-MAX_CALLS:], {k: v for k, v in counts.items() if isinstance(v, int)})
    return out


def _plain(data: bytes) -> Any:
    return json.loads(data) if data[:1] in (b"{", b"[") else load_plain(data)


def _torch_group(
    group: Group, view: RingView, names: Mapping[int, tuple[Any, ...]], status: Any, used: set[int]
) -> int | None:
    """The number under which torch's recorder knows the group: the world's, the one of its label, or of its count."""
    free = [pg_id for pg_id in sorted(names) if pg_id not in used]
    if group.ranks == tuple(range(view.world_size or 0)) and group.index == 0:
        found = [i for i in free if names[i] and (names[i][0] == "0" or names[i][-1] == "default_pg")]
        if found:
            return found[0]
    sequence = view.groups[group].sequence
    free = [i for i in free if names[i][-1] == group.label] or free

    def count(pg_id: int) -> object:
        return status.get(pg_id, status.get(str(pg_id), {})).get("last_enqueued_collective")

    exact = [i for i in free if count(i) == sequence]
    return exact[0] if exact else free[0] if len(free) == 1 else None


def _row(entry: dict[str, Any], group: Group, pg_id: int) -> dict[str, Any]:
    frames: list[dict[str, Any]] = []
    users = 0
    for frame in entry.get("frames", ())[:64]:
        frames.append(frame)
        one = Frame(function=str(frame.get("name")), file=str(frame.get("filename")), line=frame.get("line"))
        users += user_frame((one,)) is not None
        if users == _USER_FRAMES:
            break
    keys = (
        "record_id", "collective_seq_id", "profiling_name", "input_sizes", "output_sizes", "input_dtypes",
        "output_dtypes", "time_created_ns", "retired", "state", "timeout_ms",
    )  # fmt: skip
    return {
        **{key: entry[key] for key in keys if key in entry},
        "input_dtypes": [_DTYPES.get(name, name) for name in entry.get("input_dtypes", ())],
        "is_p2p": False,
        "pg_id": pg_id,
        "process_group": [ring_group_name(group), _label(group)],
        "frames": frames,
    }
