"""The form of a pickled dump: where its entries and their times lie in its bytes. See [Note: dumps of one form].

Opcodes: Python's pickle protocol 2, which torch writes (torch/csrc/jit/serialization/pickler.cpp 2.13): memo numbers
are explicit, so what nobody refers to can be left out.
"""

from dataclasses import dataclass, field
from struct import Struct
from typing import Any

from emberward.sources.dumps._forms import MIN_BULK, Form, num_bulk_of, runs_after, share
from emberward.sources.dumps._unpickle import load_plain

NUM_FIRST = 8
"""Fewest entries at the beginning that are unpickled of every dump: those that name its threads."""
_PLAIN = {ord(code): 0 for code in "})](uetsaNld0"} | dict.fromkeys((0x85, 0x86, 0x87, 0x88, 0x89), 0)
_WIDTHS = _PLAIN | {ord("K"): 1, ord("M"): 2, ord("J"): 4}
_DICT, _LIST, _MARK, _TEXT, _LONG, _FLOAT = ord("}"), ord("]"), ord("("), ord("X"), 0x8A, ord("G")
_PUT, _LONG_PUT, _GET, _LONG_GET, _STOP = ord("q"), ord("r"), ord("h"), ord("j"), ord(".")
_ENDS = frozenset(b"uetld")
_POP, _NONE = b"0", b"N"
_THREAD = b"thread_id"
_CREATED = b"time_created_ns"
_TIMES = frozenset({_CREATED, b"time_discovered_started_ns", b"time_discovered_completed_ns", b"duration_ms"})


@dataclass(slots=True)
class _Span:
    """Where one entry's bytes lie, its times (offset, whether it is that of creation), its memo numbers, and whether it
    is the first of its thread."""

    start: int
    end: int = 0
    names_thread: bool = False
    times: list[tuple[int, bool]] = field(default_factory=list)
    puts: set[int] = field(default_factory=set)
    gets: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """A run of entries: its size in bytes, what it holds besides times, and where those of creation are."""

    size: int
    shape: Struct
    literals: tuple[bytes, ...]
    times: Struct

    def is_at(self, data: bytes, at: int) -> bool:
        """Whether `data` holds this run there, whatever its times are."""
        return at + self.size <= len(data) and self.shape.unpack_from(data, at) == self.literals


@dataclass(slots=True, kw_only=True)
class _PickleForm:
    """The entries of one dump but for its first few. `bulk` is the first `num_bulk` of them; `last` are the others, in
    runs with the number of entries in each.

    `referred`: the bytes of what later entries refer to, made and dropped again. `samples`: where in the bulk the first
    entry of each ``pg_id`` and thread lies.
    """

    entries: list[dict[str, Any]]
    num_bulk: int
    bulk: _Piece
    last: list[tuple[_Piece, int]]
    referred: bytes
    samples: tuple[tuple[int, int], ...]
    read: dict[int, Any] = field(default_factory=dict)

    def formed(self, data: bytes) -> Any:
        start = data.find(self.bulk.literals[0])
        if start < 0 or not self.bulk.is_at(data, start):
            return None
        end, count = start + self.bulk.size, self.num_bulk
        created = self.bulk.times.unpack_from(data, start)
        for piece, number in self.last:
            if not piece.is_at(data, end):
                break
            created += piece.times.unpack_from(data, end)
            end, count = end + piece.size, count + number
        samples = b"".join(data[start + a : start + b] for a, b in self.samples)
        spliced = data[:start] + self.referred + _NONE + samples + _NONE + data[end:]
        return share(load_plain, spliced, form=self, num_shared=count, created_ns=created)


def _spans(data: bytes) -> list[_Span] | None:
    """The entries of a dump by their bytes; None for a pickle of another kind than torch's."""
    texts: dict[int, bytes] = {}
    holders: list[int] = []
    spans: list[_Span] = []
    span: _Span | None = None
    fresh, key, list_key = 0, b"", b""
    at, size = 2, len(data)
    newest = -1
    while at < size:
        code = data[at]
        if code in (_PUT, _LONG_PUT):
            width = 1 if code == _PUT else 4
            number = int.from_bytes(data[at + 1 : at + 1 + width], "little")
            if number <= newest:
                return None
            newest = number
            if key:
                texts[number] = key
            if span is not None:
                span.puts.add(number)
            at += 1 + width
            continue
        if code in (_GET, _LONG_GET):
            width = 1 if code == _GET else 4
            number = int.from_bytes(data[at + 1 : at + 1 + width], "little")
            if span is not None:
                span.gets.add(number)
            key, fresh = texts.get(number, b""), 0
            at += 1 + width
            continue
        if code == _TEXT:
            length = int.from_bytes(data[at + 1 : at + 5], "little")
            if span is not None and key == _THREAD:
                span.names_thread = True
            key, fresh = data[at + 5 : at + 5 + length], 0
            at += 5 + length
            continue
        if code in (_LONG, _FLOAT):
            width, start = (data[at + 1], at + 2) if code == _LONG else (8, at + 1)
            if span is not None and width == 8 and key in _TIMES:
                span.times.append((start, key == _CREATED and code == _LONG))
            at = start + width
        elif code == _MARK:
            holders.append(fresh)
            at += 1
        elif code in (_DICT, _LIST):
            if code == _LIST and len(holders) == 1:
                list_key = key
            if code == _DICT and holders == [_DICT, _LIST] and list_key == b"entries":
                span = _Span(at)
            fresh, key = code, b""
            at += 1
            continue
        elif code in _WIDTHS:
            at += 1 + _WIDTHS[code]
            if code in _ENDS:
                if not holders:
                    return None
                # A long list or dict comes in batches: the next mark is of the same one.
                fresh, key = holders.pop(), b""
                if span is not None and holders == [_DICT, _LIST]:
                    span.end = at
                    spans.append(span)
                    span = None
                continue
        elif code == _STOP:
            return spans
        else:
            return None
        fresh, key = 0, b""
    return None


def _piece(data: bytes, spans: list[_Span], end: int) -> _Piece:
    """The run of `spans` up to the byte `end`."""
    start = at = spans[0].start
    shape = holes = "<"
    for offset, is_created in (time for span in spans for time in span.times):
        shape += f"{offset - at}s8x"
        holes += f"{offset - at}x{'q' if is_created else '8x'}"
        at = offset + 8
    struct = Struct(f"{shape}{end - at}s")
    literals = struct.unpack_from(data, start)
    return _Piece(size=end - start, shape=struct, literals=literals, times=Struct(holes))


def pickle_form(data: bytes, entries: list[Any]) -> Form | None:
    """The form of a dump; None where it has no bulk, or where too much of it is referred to later."""
    spans = _spans(data) if data[:2] == b"\x80\x02" else None
    if spans is None or len(spans) != len(entries):
        return None
    first = max(NUM_FIRST, 1 + max((i for i, span in enumerate(spans) if span.names_thread), default=0))
    entries, spans = entries[first:], spans[first:]
    num_bulk = num_bulk_of(entries)
    if num_bulk < MIN_BULK or any(sum(is_created for _, is_created in span.times) != 1 for span in spans):
        return None
    made = {number: i for i, span in enumerate(spans) for number in span.puts}
    gets = [(made.get(number, i), i) for i, span in enumerate(spans) for number in span.gets]
    referred = sorted({maker for maker, i in gets if maker != i})
    if len(referred) > len(spans) // 8:
        return None
    start, ends = spans[0].start, [*(span.start for span in spans[1:]), spans[-1].end]
    own = {(e.get("pg_id"), e.get("thread_id")): i for i, e in reversed(list(enumerate(entries[:num_bulk])))}
    return _PickleForm(
        entries=entries,
        num_bulk=num_bulk,
        bulk=_piece(data, spans[:num_bulk], ends[num_bulk - 1]),
        last=[(_piece(data, spans[a:b], ends[b - 1]), b - a) for a, b in runs_after(num_bulk, len(spans))],
        referred=b"".join(data[spans[i].start : spans[i].end] + _POP for i in referred if i < num_bulk),
        samples=tuple((spans[i].start - start, spans[i].end - start) for i in own.values()),
    )
