"""One rank's flight-recorder dump, reduced to what a judge needs.

[Note: flight recorder]
Written by torch/csrc/distributed/c10d/FlightRecorder*.hpp; read here in formats 2.4 to 2.10 (the dump's ``version``),
as pickle or JSON. What the formats leave open, as measured with torch 2.13:

* ``pg_id`` counts the groups of one process; the name in ``process_group`` is the same on all members. ``pg_status`` is
  keyed by ``pg_id``, ``pg_config`` by name; both ascend together.
* gloo names its group "" in ``pg_config`` and leaves the ranks empty when there are several groups. Its ``state`` is
  always "scheduled" and both times are absent: ``retired`` and ``pg_status`` tell what has completed. It records no
  send and no receive, and counts them in ``pg_status`` all the same: a status beyond the newest entry tells nothing.
* ``record_id`` counts the calls of one process and says nothing about another one. ``collective_seq_id`` counts the
  calls of one group from 1 and is the k by which calls meet, also when the ring has lost its beginning.
* ``thread_id`` is the thread's pthread handle, as py-spy's ``thread_id`` is.
"""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from operator import itemgetter, sub
from typing import Any

from emberward.diagnose import GroupName, GroupPart, RankFlight, call_of, group_name, integer_of

KEPT_TAIL = 96
"""Calls whose stacks and sizes are kept when a group's calls are like those of another rank."""

_SIGNATURE_KEYS = ("profiling_name", "input_sizes", "output_sizes", "input_dtypes", "output_dtypes")
_signature_of = itemgetter(*_SIGNATURE_KEYS)
_seq_of = itemgetter("collective_seq_id")
_DEFAULTS: dict[str, Any] = {
    "pg_id": 0,
    "collective_seq_id": 0,
    "time_created_ns": 0,
    "input_sizes": [],
    "output_sizes": [],
    "input_dtypes": [],
    "output_dtypes": [],
    "retired": False,
    "is_p2p": False,
    "state": "scheduled",
}
_TYPES: dict[str, type] = {
    "pg_id": int,
    "collective_seq_id": int,
    "time_created_ns": int,
    "retired": bool,
    "is_p2p": bool,
    "state": str,
    "profiling_name": str,
}
_core_of = itemgetter(*_TYPES)
_SHAPES = ("input_sizes", "output_sizes", "input_dtypes", "output_dtypes")


class DumpFormatError(ValueError):
    """A file that is no flight-recorder dump, or one that cannot be believed."""


def is_flight_dump(data: object) -> bool:
    """Whether a plain value has the outer shape of a flight-recorder dump."""
    return isinstance(data, dict) and "entries" in data and ("version" in data or "pg_config" in data)


def version_of(data: dict[str, Any]) -> tuple[int, int]:
    """The dump's format, (0, 0) when it names none. Raises DumpFormatError when it is not two numbers."""
    text = data.get("version", "0.0")
    found = re.fullmatch(r"(\d{1,4})\.(\d{1,4})", text) if isinstance(text, str) else None
    if found is None:
        raise DumpFormatError(f"its version is {text!r}, not two numbers")
    return int(found.group(1)), int(found.group(2))


@lru_cache(maxsize=65_536)
def _ranks_text(text: str) -> tuple[int, ...] | None:
    return tuple(map(int, re.findall(r"\d{1,7}", text))) or None


def _ranks(value: object) -> tuple[int, ...] | None:
    """Ranks of a group from ``"[0, 1]"`` or a list; None when empty or unreadable."""
    if isinstance(value, str):
        return _ranks_text(value)
    if not isinstance(value, list | tuple):
        return None
    return tuple(number for item in value if (number := integer_of(item)) is not None and number >= 0) or None


def _clean(raw: object) -> tuple[list[dict[str, Any]], list[tuple[Any, ...]], int]:
    """(entries with every key that is read, their columns in the order of `_TYPES`, number of entries left out).

    One pass at C speed over sound dumps; only an unsound one is looked at entry by entry.
    """
    if not isinstance(raw, list | tuple):
        raise DumpFormatError("its entries are no list")
    entries = raw if isinstance(raw, list) else list(raw)
    try:
        columns = list(zip(*map(_core_of, entries), strict=True))
        is_sound = all(set(map(type, column)) <= {kind} for column, kind in zip(columns, _TYPES.values(), strict=False))
        for key in _SHAPES:
            is_sound = is_sound and set(map(type, map(itemgetter(key), entries))) <= {list, tuple}
    except (KeyError, TypeError):
        is_sound = False
    if is_sound:
        return entries, columns or [()] * len(_TYPES), 0
    kept = []
    for entry in entries:
        if not isinstance(entry, dict):
            continue
        whole = {**_DEFAULTS, **{key: value for key, value in entry.items() if value is not None}}
        is_typed = all(type(whole.get(key)) is kind for key, kind in _TYPES.items())
        if is_typed and all(type(whole[key]) in (list, tuple) for key in _SHAPES):
            kept.append(whole)
    return kept, list(zip(*map(_core_of, kept), strict=True)) or [()] * len(_TYPES), len(entries) - len(kept)


class FlightReader:
    """Turns raw dumps into `RankFlight`s, one after another, and shares what is alike between ranks.

    Two ranks that made the same calls in a group share one list of signatures, so that a mismatch costs memory and an
    agreement does not.
    """

    def __init__(self) -> None:
        self._likeness: dict[tuple[GroupName, tuple[int, ...] | None], GroupPart] = {}

    def read(self, data: dict[str, Any], *, rank: int, path: str, read_ns: int | None = None) -> RankFlight:
        """One rank's reduced dump. Raises DumpFormatError on what cannot be believed. `read_ns`: when it was dumped."""
        version = version_of(data)
        entries, columns, num_dropped = _clean(data.get("entries"))
        pg_ids, _, created, _, is_p2p, _, _ = columns
        buckets: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for pg_id, entry in zip(pg_ids, entries, strict=True):
            buckets[pg_id].append(entry)
        has_p2p = True in is_p2p
        config, status = self._config(data), self._status(data)
        names = self._names(buckets, config, status)
        if set(config) == {""} and len(names) == 1:
            config = {next(iter(names.values()))[0]: config[""]}
        flight = RankFlight(
            rank=rank,
            path=path,
            version=version,
            backend=self._backend(entries),
            groups={},
            pending=[],
            p2p_pending=[],
            num_entries=len(entries),
            thread_ids=frozenset(str(e["thread_id"]) for e in entries[-KEPT_TAIL:] if "thread_id" in e),
            read_ns=read_ns,
            num_dropped=num_dropped,
        )
        # Gloo counts sends and receives as calls of the group, and does not write them down.
        counts_more = flight.backend == "gloo" and "comm_lib_version" in data
        is_whole = bool(entries) and integer_of(entries[0].get("record_id")) in (0, 1)
        for pg_id in sorted(set(buckets) | set(status)):
            name, own = names.get(pg_id), buckets.get(pg_id, [])
            count = status.get(pg_id)
            if count is not None and counts_more:
                count = _collectives_of(count, own, is_whole=is_whole)
            if name is not None:
                self._add_group(flight, name, config.get(name[0]), own, count, has_p2p=has_p2p)
        for pg_name, (desc, ranks) in config.items():
            if pg_name and not any(name[0] == pg_name for name in flight.groups):
                name = (pg_name, desc)
                flight.groups[name] = GroupPart(
                    name=name, ranks=ranks, seqs=[], signatures=[], entries=[], enqueued=0, completed=0
                )
        # A damaged row may name another group than the rest of its number: it cannot be placed.
        flight.pending = [call for call in flight.pending if call.group in flight.groups]
        flight.pending.sort(key=lambda call: call.record)
        flight.p2p_pending = [call for call in flight.pending if call.is_p2p]
        self._times(flight, created)
        return flight

    @staticmethod
    def _backend(entries: list[dict[str, Any]]) -> str | None:
        name = entries[-1]["profiling_name"] if entries else ""
        return name.partition(":")[0] if ":" in name else None

    @staticmethod
    def _config(data: dict[str, Any]) -> dict[str, tuple[str, tuple[int, ...] | None]]:
        raw = data.get("pg_config")
        config = {}
        for name, item in raw.items() if isinstance(raw, dict) else ():
            if isinstance(item, dict):
                config[str(name)] = (str(item.get("desc", "")), _ranks(item.get("ranks")))
        return config

    @staticmethod
    def _status(data: dict[str, Any]) -> dict[int, tuple[int, int]]:
        raw = data.get("pg_status")
        status = {}
        for key, item in raw.items() if isinstance(raw, dict) else ():
            pg_id = integer_of(key)
            if pg_id is not None and isinstance(item, dict):
                enqueued = integer_of(item.get("last_enqueued_collective"))
                completed = integer_of(item.get("last_completed_collective"))
                status[pg_id] = (max(enqueued or 0, 0), max(completed or 0, 0))
        return status

    @staticmethod
    def _names(
        buckets: dict[int, list[dict[str, Any]]],
        config: dict[str, tuple[str, tuple[int, ...] | None]],
        status: dict[int, tuple[int, int]],
    ) -> dict[int, GroupName]:
        """Which group each pg_id is: from its entries, else by the common order. See [Note: flight recorder]."""
        names = {pg_id: group_name(found[0]) for pg_id, found in buckets.items()}
        numbered = sorted((int(name), name) for name in config if name.isdigit())
        if len(numbered) == len(config) == len(status) and status:
            for pg_id, (_, name) in zip(sorted(status), numbered, strict=True):
                names.setdefault(pg_id, (name, config[name][0]))
        return names

    def _add_group(
        self,
        flight: RankFlight,
        name: GroupName,
        config: tuple[str, tuple[int, ...] | None] | None,
        entries: list[dict[str, Any]],
        status: tuple[int, int] | None,
        *,
        has_p2p: bool,
    ) -> None:
        ranks = None if config is None else config[1]
        if has_p2p:
            points = [entry for entry in entries if entry["is_p2p"]]
            entries = [entry for entry in entries if not entry["is_p2p"]]
            calls = list(map(call_of, points))
            flight.p2p_counts.update((c.group, c.is_send, c.peer, c.site) for c in calls)
            for c in calls:
                flight.p2p_tags.setdefault((c.group, c.is_send, c.peer), []).append(c.tag)
                flight.p2p_records.setdefault((c.group, c.is_send, c.peer), []).append(c.record)
            flight.pending += [call for call in calls if not call.is_completed]
        seqs = list(map(_seq_of, entries))
        if seqs != sorted(seqs):
            entries = sorted(entries, key=_seq_of)
            seqs = list(map(_seq_of, entries))
        enqueued, completed = status or (0, 0)
        if entries:
            enqueued = max(enqueued, seqs[-1])
        undone = [e for e in entries if not e["retired"] and e["state"] != "completed"]
        if status is None:
            first_undone = undone[0]["collective_seq_id"] if undone else enqueued + 1
            completed = max(completed, first_undone - 1)
        else:
            undone = [e for e in undone if e["collective_seq_id"] > completed]
        flight.pending += [call_of(entry, completed) for entry in undone]
        part = GroupPart(
            name=name,
            ranks=ranks,
            seqs=seqs,
            signatures=list(map(_signature_of, entries)),
            entries=entries,
            enqueued=enqueued,
            completed=completed,
        )
        self._liken(part)
        flight.groups[name] = part

    def _liken(self, part: GroupPart) -> None:
        """Shares the signatures with the first rank of the group where they are equal over the common calls."""
        if not part.seqs:
            return
        key = (part.name, part.ranks)
        first = self._likeness.get(key)
        if first is None:
            self._likeness[key] = part
            return
        low, high = max(first.seqs[0], part.seqs[0]), min(first.seqs[-1], part.seqs[-1])
        if low > high:
            return
        a, b = _cut(first, low, high), _cut(part, low, high)
        if first.seqs[a] != part.seqs[b] or first.signatures[a] != part.signatures[b]:
            part.is_alike = False
            return
        part.signatures[b] = first.signatures[a]
        part.entries = part.entries[-KEPT_TAIL:]

    @staticmethod
    def _times(flight: RankFlight, created: Sequence[int]) -> None:
        if created and min(created) <= 0:
            created = [ns for ns in created if ns > 0]
        if created:
            flight.first_ns, flight.last_ns = created[0], max(created)
            flight.longest_gap_ns = max(map(sub, created[1:], created), default=0)


def _collectives_of(count: tuple[int, int], entries: list[dict[str, Any]], *, is_whole: bool) -> tuple[int, int] | None:
    """Gloo's count of a group's calls as one of collectives; None where the entries alone tell. `is_whole`: none was
    overwritten."""
    if not entries:
        return (0, 0) if is_whole else count
    return None if count[0] > max(map(_seq_of, entries)) else count


def _cut(part: GroupPart, low: int, high: int) -> slice:
    """The index range of the calls with seq in [low, high]."""
    return slice(bisect_left(part.seqs, low), bisect_right(part.seqs, high))
