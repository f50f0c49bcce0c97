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
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import itemgetter, sub
from typing import Any

from emberward.diagnose import (
    Call,
    GroupName,
    GroupPart,
    Members,
    RankFlight,
    call_of,
    group_name,
    integer_of,
    store_calls,
)
from emberward.sources.dumps._forms import FormedEntries

KEPT_TAIL = 96
"""Calls whose stacks and sizes are kept when a group's calls and the lines of these are like those of another rank."""
MAX_BY_LINES = 8
"""Most ways of lines of a group that are told apart."""

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
def _ranks_text(text: str) -> Members | None:
    return Members(map(int, re.findall(r"\d{1,7}", text))) or None


def _ranks(value: object) -> Members | None:
    """Ranks of a group from ``"[0, 1]"`` or a list; None when empty or unreadable."""
    if isinstance(value, str):
        return _ranks_text(value)
    if not isinstance(value, list | tuple):
        return None
    return Members(number for item in value if (number := integer_of(item)) is not None and number >= 0) or None


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


@dataclass(slots=True)
class _Rows:
    """The collectives of one ``pg_id``, in their order, and its calls that have not completed (`undone`).

    `points` counts the sends and receives by (whether it is a send, peer, line); `tags` and `records` are theirs in
    the order of issue, by (whether it is a send, peer).
    """

    entries: list[dict[str, Any]] = field(default_factory=list)
    seqs: list[int] = field(default_factory=list)
    signatures: list[tuple[Any, ...]] = field(default_factory=list)
    undone: list[Call] = field(default_factory=list)
    points: Counter[tuple[bool, int | None, str | None]] = field(default_factory=Counter)
    tags: dict[tuple[bool, int | None], list[int | None]] = field(default_factory=dict)
    records: dict[tuple[bool, int | None], list[int]] = field(default_factory=dict)


@dataclass(slots=True)
class _Runs:
    """The rows of one ``pg_id`` as they follow one another, those of a form among them, and the calls that are open."""

    rows: list[_Rows] = field(default_factory=list)
    undone: list[Call] = field(default_factory=list)

    def is_like(self, other: "_Runs") -> bool:
        """Whether the collectives of both are equal in number and signature; what they share is not looked through."""
        return len(self.rows) == len(other.rows) and all(
            ours is theirs or (ours.seqs == theirs.seqs and ours.signatures == theirs.signatures)
            for ours, theirs in zip(self.rows, other.rows, strict=True)
        )

    def newest(self, number: int) -> list[dict[str, Any]]:
        """The newest entries of collectives, at most `number`, in their order."""
        found: list[dict[str, Any]] = []
        for rows in reversed(self.rows):
            if len(found) < number:
                found = rows.entries[len(found) - number :] + found
        return found


@dataclass(slots=True)
class _Read:
    """A dump's entries, read: by ``pg_id``, of each of these one that names the group, and when they were created."""

    runs: dict[int, _Runs] = field(default_factory=lambda: defaultdict(_Runs))
    samples: dict[int, dict[str, Any]] = field(default_factory=dict)
    created: list[int] = field(default_factory=list)
    threads: set[str] = field(default_factory=set)
    oldest: dict[str, Any] | None = None
    newest: dict[str, Any] | None = None
    num_dropped: int = 0

    def add(self, raw: object) -> None:
        """Appends entries."""
        entries, columns, num_dropped = _clean(raw)
        self.num_dropped += num_dropped
        self.created += columns[2]
        self.newest = next(reversed(entries), self.newest)
        self.threads |= {str(entry["thread_id"]) for entry in entries[-KEPT_TAIL:] if "thread_id" in entry}
        self.oldest = self.oldest or next(iter(entries), None)
        by_id: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for pg_id, entry in zip(columns[0], entries, strict=True):
            by_id[pg_id].append(entry)
        for pg_id, found in by_id.items():
            self.samples.setdefault(pg_id, found[0])
            rows, runs = _rows(found, has_p2p=True in columns[4]), self.runs[pg_id]
            runs.rows.append(rows)
            runs.undone += rows.undone

    def add_shared(self, formed: FormedEntries) -> None:
        """Appends those of a form, which are read once; the calls among them are of this dump's groups."""
        form, count = formed.form, formed.num_shared
        shared = form.read.get(count)
        if shared is None:
            shared = form.read[count] = _Read()
            shared.add(form.entries[:count])
        self.created += formed.created_ns
        for sample in _clean(formed.samples)[0]:
            self.samples.setdefault(sample["pg_id"], sample)
            self.threads |= {str(sample["thread_id"])} if "thread_id" in sample else set()
        self.oldest, self.newest = self.oldest or shared.oldest, shared.newest
        for pg_id, shared_runs in shared.runs.items():
            theirs = group_name(shared.samples[pg_id])
            name = group_name(self.samples[pg_id]) if pg_id in self.samples else theirs
            runs = self.runs[pg_id]
            runs.rows += shared_runs.rows
            is_renamed = name != theirs
            runs.undone += [
                replace(call, group=name) if is_renamed and call.group == theirs else call
                for call in shared_runs.undone
            ]


def _rows(entries: list[dict[str, Any]], *, has_p2p: bool) -> _Rows:
    undone = [call_of(e) for e in entries if not e["retired"] and e["state"] != "completed"]
    rows = _Rows(entries, undone=undone)
    if has_p2p:
        for call in (call_of(entry) for entry in entries if entry["is_p2p"]):
            rows.points[call.is_send, call.peer, call.site] += 1
            rows.tags.setdefault((call.is_send, call.peer), []).append(call.tag)
            rows.records.setdefault((call.is_send, call.peer), []).append(call.record)
        rows.entries = [entry for entry in entries if not entry["is_p2p"]]
    rows.seqs = list(map(_seq_of, rows.entries))
    rows.signatures = list(map(_signature_of, rows.entries))
    return rows


class FlightReader:
    """Turns raw dumps into `RankFlight`s, one after another, and shares what is alike between ranks.

    Two ranks that made the same calls in a group share one list of signatures, so that a mismatch costs memory and an
    agreement does not.
    """

    def __init__(self) -> None:
        self._likeness: dict[tuple[GroupName, tuple[int, ...] | None], tuple[GroupPart, _Runs]] = {}
        self._by_lines: dict[tuple[GroupName, tuple[int, ...] | None], list[dict[int, Any]]] = defaultdict(list)

    def read(self, data: dict[str, Any], *, rank: int, path: str, written_ns: int | None = None) -> RankFlight:
        """One rank's reduced dump. Raises DumpFormatError on what cannot be believed. `written_ns`: its date."""
        version = version_of(data)
        read, raw = _Read(), data.get("entries")
        if isinstance(raw, FormedEntries):
            read.add(raw.first)
            read.add_shared(raw)
            read.add(raw.last)
        else:
            read.add(raw)
        config, status = self._config(data), self._status(data)
        names = self._names(read.samples, config, status, data.get("pg_ids"))
        if set(config) == {""} and len(names) == 1:
            config = {next(iter(names.values()))[0]: config[""]}
        flight = RankFlight(
            rank=rank,
            path=path,
            version=version,
            backend=self._backend(read.newest),
            groups={},
            pending=[],
            p2p_pending=[],
            num_entries=len(read.created),
            thread_ids=frozenset(read.threads),
            written_ns=written_ns,
            num_dropped=read.num_dropped,
            store=store_calls(data.get("store")),
        )
        # Gloo counts sends and receives as calls of the group, and does not write them down.
        counts_more = flight.backend == "gloo" and "comm_lib_version" in data
        is_whole = read.oldest is not None and integer_of(read.oldest.get("record_id")) in (0, 1)
        for pg_id in sorted(set(read.runs) | set(status)):
            name, runs = names.get(pg_id), read.runs.get(pg_id) or _Runs()
            count = status.get(pg_id)
            if count is not None and counts_more:
                count = _collectives_of(count, runs, is_whole=is_whole)
            if name is not None:
                self._add_group(flight, name, config.get(name[0]), runs, count)
        known = {name[0] for name in flight.groups}
        for pg_name, (desc, ranks) in config.items():
            if pg_name and pg_name not in known:
                name = (pg_name, desc)
                flight.groups[name] = GroupPart(
                    name=name, ranks=ranks, seqs=[], signatures=[], entries=[], enqueued=0, completed=0
                )
        # A damaged row may name another group than the rest of its number: it cannot be placed.
        flight.pending = [call for call in flight.pending if call.group in flight.groups]
        flight.pending.sort(key=lambda call: call.record)
        flight.p2p_pending = [call for call in flight.pending if call.is_p2p]
        self._times(flight, read.created)
        return flight

    @staticmethod
    def _backend(newest: dict[str, Any] | None) -> str | None:
        name = "" if newest is None else newest["profiling_name"]
        return name.partition(":")[0] if ":" in name else None

    @staticmethod
    def _config(data: dict[str, Any]) -> dict[str, tuple[str, tuple[int, ...] | None]]:
        raw = data.get("pg_config")
        config: dict[str, tuple[str, tuple[int, ...] | None]] = {}
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
        samples: dict[int, dict[str, Any]],
        config: dict[str, tuple[str, tuple[int, ...] | None]],
        status: dict[int, tuple[int, int]],
        told: Any,
    ) -> dict[int, GroupName]:
        """Which group each pg_id is: from its entries, as a ring tells, or by the common order.

        See [Note: flight recorder].
        """
        names = {pg_id: group_name(sample) for pg_id, sample in samples.items()}
        numbered = sorted((int(name), name) for name in config if name.isdigit())
        if len(numbered) == len(config) == len(status) and status:
            for pg_id, (_, name) in zip(sorted(status), numbered, strict=True):
                names.setdefault(pg_id, (name, config[name][0]))
        for name, pg_id in told.items() if isinstance(told, dict) else ():
            if isinstance(pg_id, int) and name in config:
                names.setdefault(pg_id, (name, config[name][0]))
        return names

    def _add_group(
        self,
        flight: RankFlight,
        name: GroupName,
        config: tuple[str, tuple[int, ...] | None] | None,
        runs: _Runs,
        status: tuple[int, int] | None,
    ) -> None:
        ranks = None if config is None else config[1]
        for rows in runs.rows:
            for (is_send, peer, site), number in rows.points.items():
                flight.p2p_counts[name, is_send, peer, site] += number
            for key, tags in rows.tags.items():
                flight.p2p_tags.setdefault((name, *key), []).extend(tags)
                flight.p2p_records.setdefault((name, *key), []).extend(rows.records[key])
        flight.pending += [call for call in runs.undone if call.is_p2p]
        undone = [call for call in runs.undone if not call.is_p2p]
        part = self._part(name, ranks, runs)
        enqueued, completed = status or (0, 0)
        if part.seqs:
            enqueued = max(enqueued, part.seqs[-1])
        if status is None:
            completed = max(completed, min((call.seq for call in undone), default=enqueued + 1) - 1)
        flight.pending += [call for call in undone if call.seq > completed]
        part.enqueued, part.completed = enqueued, completed
        flight.groups[name] = part

    def _part(self, name: GroupName, ranks: tuple[int, ...] | None, runs: _Runs) -> GroupPart:
        """The calls of a group, shared with the first rank of the group where they are equal over the common calls."""
        known = self._likeness.get((name, ranks))
        part = GroupPart(name=name, ranks=ranks, seqs=[], signatures=[], entries=[], enqueued=0, completed=0)
        if known is not None and runs.is_like(known[1]):
            part.seqs, part.signatures = known[0].seqs, known[0].signatures
            part.entries = runs.newest(KEPT_TAIL)
            if self._has_new_lines(part):
                part.entries = runs.newest(len(part.seqs))
            return part
        part.entries = [entry for rows in runs.rows for entry in rows.entries]
        part.seqs = list(map(_seq_of, part.entries))
        part.signatures = [signature for rows in runs.rows for signature in rows.signatures]
        if part.seqs != (ordered := sorted(part.seqs)):
            part.entries.sort(key=_seq_of)
            part.seqs, part.signatures = ordered, list(map(_signature_of, part.entries))
            runs = _Runs([_Rows(part.entries, part.seqs, part.signatures)])
        if known is None or not part.seqs:
            if part.seqs:
                self._likeness[name, ranks] = part, runs
                self._has_new_lines(part)
            return part
        first = known[0]
        low, high = max(first.seqs[0], part.seqs[0]), min(first.seqs[-1], part.seqs[-1])
        if low > high:
            return part
        a, b = _cut(first, low, high), _cut(part, low, high)
        if first.seqs[a] != part.seqs[b] or first.signatures[a] != part.signatures[b]:
            part.is_alike = False
            return part
        part.signatures[b] = first.signatures[a]
        if not self._has_new_lines(part):
            part.entries = part.entries[-KEPT_TAIL:]
        return part

    def _has_new_lines(self, part: GroupPart) -> bool:
        """Whether the newest calls stand at other lines or steps than those of each rank before, alike in calls.

        Then where they parted is told by older ones. More than `MAX_BY_LINES` ways of lines are not told apart.
        """
        ways = self._by_lines[part.name, part.ranks]
        newest = {_seq_of(entry): (entry.get("frames"), entry.get("step")) for entry in part.entries[-KEPT_TAIL:]}
        is_known = any(all(way.get(seq, place) == place for seq, place in newest.items()) for way in ways)
        if is_known or len(ways) == MAX_BY_LINES:
            return False
        ways.append(newest)
        return True

    @staticmethod
    def _times(flight: RankFlight, created: Sequence[int]) -> None:
        if created and min(created) <= 0:
            created = [ns for ns in created if ns > 0]
        if created:
            flight.first_ns, flight.last_ns = created[0], max(created)
            flight.longest_gap_ns = max(map(sub, created[1:], created), default=0)


def _collectives_of(count: tuple[int, int], runs: _Runs, *, is_whole: bool) -> tuple[int, int] | None:
    """Gloo's count of a group's calls as one of collectives; None where the entries alone tell. `is_whole`: none was
    overwritten."""
    newest = max((max(rows.seqs) for rows in runs.rows if rows.seqs), default=None)
    if newest is None:
        return (0, 0) if is_whole else count
    return None if count[0] > newest else count


def _cut(part: GroupPart, low: int, high: int) -> slice:
    """The index range of the calls with seq in [low, high]."""
    return slice(bisect_left(part.seqs, low), bisect_right(part.seqs, high))
