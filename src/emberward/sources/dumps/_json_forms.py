"""The form of a dump in JSON: what its entries hold besides times, groups and threads. See [Note: dumps of one form].

JSON repeats in each entry what a pickle says once: which group, and which thread. These differ from rank to rank, and a
dump is of the form where each has one text at all places at which it has one in the form.
"""

import json
import re
from dataclasses import dataclass, field
from itertools import compress, pairwise, takewhile
from typing import Any

from emberward.sources.dumps._forms import MIN_BULK, Form, num_bulk_of, runs_after, share

# RFC 8259, section 6; shorter than what Python refuses to read as a number.
_NUMBER = rb"-?(?:0|[1-9]\d{0,19})(?:\.\d{1,20})?(?:[eE][-+]?\d{1,3})?"
# Bounded, since a name is written out at each of its places.
_GROUP, _THREAD = rb"\[[^\[\]]{0,128}\]", rb'"[^"\\]{0,128}"'
_HOLE = re.compile(
    rb'"(?:(time_created_ns)|time_discovered_started_ns|time_discovered_completed_ns|duration_ms)":\s*'
    rb'(?P<time>%b)(?=[\s,}])|"process_group":\s*(?P<group>%b)|"thread_id":\s*(?P<thread>%b)'
    % (_NUMBER, _GROUP, _THREAD)
)
_number_at = re.compile(_NUMBER).match
_name_at = re.compile(rb"%b|%b" % (_GROUP, _THREAD)).match
_HEAD = re.compile(r'"entries"\s*:\s*\[\s*\Z')
_BETWEEN = re.compile(r"[\s,:]*")
_TIME, _CREATED, _END = -1, -2, -3
_HERE = b"\0"
"""Stands for a time in a template: no sound JSON holds this byte."""

Row = tuple[tuple[bytes, int], ...]
"""One entry up to the next: bytes, and what follows them: a time, a name by its number, or nothing."""


@dataclass(slots=True)
class _Place:
    """Where the match of a dump stands: its byte, the texts of its names, when its entries were created, and those
    entries whose own bytes count."""

    at: int
    names: dict[bytes, bytes] = field(default_factory=dict)
    created: list[bytes] = field(default_factory=list)
    samples: list[bytes] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sample:
    """The first entry of its kind, by ``pg_id``, group and thread, whose names are learnt from the dump."""

    row: Row

    def is_at(self, data: bytes, place: _Place) -> bool:
        """Whether `data` holds the entry there; moves `place` behind it."""
        at = place.at
        for literal, hole in self.row:
            if not data.startswith(literal, at):
                return False
            at += len(literal)
            if hole == _END:
                break
            found = (_number_at if hole < 0 else _name_at)(data, at)
            if found is None or (hole >= 0 and place.names.setdefault(b"%d" % hole, found.group()) != found.group()):
                return False
            at = found.end()
            if hole == _CREATED:
                place.created.append(found.group())
        place.samples.append(data[place.at : at])
        place.at = at
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """Entries whose names are known. `template`: their bytes, with each name by its number and `_HERE` for a time;
    `are_created`: which of the times are those of creation."""

    template: bytes
    are_created: tuple[bool, ...]

    def is_at(self, data: bytes, place: _Place) -> bool:
        """Whether `data` holds the entries there; moves `place` behind them."""
        at, times = place.at, []
        *literals, last = (self.template % place.names).split(_HERE)
        for literal in literals:
            if not data.startswith(literal, at):
                return False
            found = _number_at(data, at + len(literal))
            if found is None:
                return False
            at = found.end()
            times.append(found.group())
        if not data.startswith(last, at):
            return False
        place.created += compress(times, self.are_created)
        place.at = at + len(last)
        return True


def _block(rows: list[Row]) -> _Block:
    parts = []
    for literal, hole in (piece for row in rows for piece in row):
        parts.append(literal.replace(b"%", b"%%"))
        if hole != _END:
            parts.append(_HERE if hole < 0 else b"%%(%d)b" % hole)
    times = [hole for row in rows for _, hole in row if hole in (_TIME, _CREATED)]
    return _Block(template=b"".join(parts), are_created=tuple(hole == _CREATED for hole in times))


@dataclass(slots=True, kw_only=True)
class _JsonForm:
    """The entries of one dump. `head`: the bytes before the first; `bulk`: the first `num_bulk` of them; `last`: runs
    of the others, with the number of entries in each."""

    entries: list[dict[str, Any]]
    head: bytes
    num_bulk: int
    bulk: list[_Sample | _Block]
    last: list[tuple[_Block, int]]
    read: dict[int, Any] = field(default_factory=dict)

    def formed(self, data: bytes) -> Any:
        start = data.find(self.head) + len(self.head)
        place = _Place(start)
        if start < len(self.head) or not all(part.is_at(data, place) for part in self.bulk):
            return None
        count = self.num_bulk
        for block, number in self.last:
            if not block.is_at(data, place):
                break
            count += number
        comma = b"," if count < len(self.entries) else b""
        spliced = data[:start] + b"null," + b"".join(place.samples) + b"null" + comma + data[place.at :]
        try:
            created_ns = tuple(map(int, place.created))
        except ValueError:
            return None
        return share(json.loads, spliced, form=self, num_shared=count, created_ns=created_ns)


def _spans(text: str) -> list[tuple[int, int]]:
    """Where each entry of a dump begins and ends; `text` is sound JSON, an object."""
    parse = json.JSONDecoder().raw_decode
    at = text.index("{") + 1
    while (at := _skip(text, at)) < len(text) and text[at] != "}":
        key, at = parse(text, at)
        at = _skip(text, at)
        if key != "entries" or text[at] != "[":
            _, at = parse(text, at)
            continue
        spans = []
        at = _skip(text, at + 1)
        while text[at] != "]":
            _, end = parse(text, at)
            spans.append((at, end))
            at = _skip(text, end)
        return spans
    return []


def _skip(text: str, at: int) -> int:
    found = _BETWEEN.match(text, at)
    return at if found is None else found.end()


def _row(data: bytes, start: int, end: int, names: dict[bytes, int]) -> Row:
    row = []
    at = start
    for found in _HOLE.finditer(data, start, end):
        kind = str(found.lastgroup)
        if kind == "time":
            hole = _TIME if found.group(1) is None else _CREATED
        else:
            hole = names.setdefault(found.group(kind), len(names))
        row.append((data[at : found.start(kind)], hole))
        at = found.end(kind)
    return (*row, (data[at:end], _END))


def json_form(data: bytes, entries: list[Any]) -> Form | None:
    """The form of a dump that holds `entries`; None where it has no bulk."""
    if num_bulk_of(entries) < MIN_BULK or not data.isascii():
        return None
    text = data.decode("ascii")
    spans = _spans(text)
    if len(spans) != len(entries) or not all(isinstance(entry, dict) for entry in entries):
        return None
    num_bulk, start = num_bulk_of(entries), spans[0][0]
    head = _HEAD.search(text, max(0, start - 256), start)
    if head is None:
        return None
    names: dict[bytes, int] = {}
    ends = [*(begin for begin, _ in spans[1:]), spans[-1][1]]
    rows = [_row(data, begin, end, names) for (begin, _), end in zip(spans, ends, strict=True)]
    kinds: list[tuple[str | int, ...]] = [
        (str(entry.get("pg_id")), *(hole for _, hole in row if hole >= 0))
        for row, entry in zip(rows, entries, strict=True)
    ]
    known = set(kinds[:num_bulk])
    form = _JsonForm(
        entries=entries,
        head=head.group().encode(),
        num_bulk=num_bulk,
        bulk=_bulk(rows[:num_bulk], kinds),
        last=[
            (_block(rows[a:b]), b - a)
            for a, b in takewhile(lambda run: known.issuperset(kinds[slice(*run)]), runs_after(num_bulk, len(rows)))
        ],
    )
    # A key may be there twice, or within another value: then what is found by the bytes is not what is read.
    itself = form.formed(data)
    created_ns = [entry.get("time_created_ns") for entry in entries]
    is_sound = itself is not None and list(itself["entries"].created_ns) == created_ns[: itself["entries"].num_shared]
    return form if is_sound else None


def _bulk(rows: list[Row], kinds: list[tuple[str | int, ...]]) -> list[_Sample | _Block]:
    """The rows as they follow one another: the first of each kind, and what lies between."""
    first = {kind: i for i, kind in reversed(list(enumerate(kinds[: len(rows)])))}
    bulk: list[_Sample | _Block] = []
    for place, after in pairwise([*sorted(first.values()), len(rows)]):
        bulk.append(_Sample(row=rows[place]))
        if after > place + 1:
            bulk.append(_block(rows[place + 1 : after]))
    return bulk
