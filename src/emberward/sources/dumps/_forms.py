"""Reads many pickled dumps of one form: what a large job's ranks recorded alike is parsed once.

[Note: dumps of one form]
The ranks of a role make the same calls, so the bytes of their dumps differ in times, in the names and ranks of their
groups, and in the calls that were open at the end. A form is the entries of one dump, with the places of the times in
them. A dump that holds the same bytes at all other places holds the same calls: it shares the form's entries, from the
first few on up to the first that differs, with times of its own, and the rest of it is unpickled as any other dump is.
A value that a judge reads and that differs is never shared; nothing is guessed.

What unpickling costs decides: 5.8 ms a dump of 2,000 calls, 95 s for 16,384 of them; comparing the bytes takes 0.2 ms
(docs/measured/explain_scale.json). A form is learnt from each eighth dump that fits none, and less often while what was
learnt is of no use. Opcodes: Python's pickle protocol 2, which torch writes (torch/csrc/jit/serialization/pickler.cpp
2.13): memo numbers are explicit, so what nobody refers to can be left out.
"""

from dataclasses import dataclass, field
from struct import Struct
from typing import Any

from emberward.sources.dumps._unpickle import load_plain

NUM_FIRST = 8
"""Fewest entries at the beginning that are unpickled of every dump: those that name its threads."""
NUM_LAST = 32
"""Completed entries before the first open one of which a dump of the form may differ: the bulk lies before them."""
MIN_BULK = 256
"""Fewest entries of a bulk, which a dump has to have as a whole to be of the form."""
MAX_FORMS = 32
NUM_UNKNOWN = 8
"""Dumps that fit no form, of which the last becomes one."""
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
class Form:
    """The entries of one dump but for its first few. `bulk` is the first `num_bulk` of them; `last` are the others, in
    runs with the number of entries in each: the completed ones together, then each by itself.

    `referred`: the bytes of what later entries refer to, made and dropped again. `samples`: where in the bulk the first
    entry of each ``pg_id`` and thread lies. `read`: what the first so many entries come to, for who reads them.
    """

    entries: list[dict[str, Any]]
    num_bulk: int
    bulk: _Piece
    last: list[tuple[_Piece, int]]
    referred: bytes
    samples: tuple[tuple[int, int], ...]
    read: dict[int, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FormedEntries:
    """A dump's entries: its own first ones, then `num_shared` of `form`, created at `created_ns`, then its own last.

    `samples`: of each ``pg_id`` and thread in the bulk this dump's own first entry, which names the group.
    """

    first: list[Any]
    samples: list[Any]
    last: list[Any]
    form: Form
    num_shared: int
    created_ns: tuple[int, ...]


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


def _is_done(entry: object) -> bool:
    return isinstance(entry, dict) and (entry.get("retired") is True or entry.get("state") == "completed")


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


def _form(data: bytes, entries: list[Any]) -> Form | None:
    """The form of a dump; None where it has no bulk, or where too much of it is referred to later."""
    spans = _spans(data)
    if spans is None or len(spans) != len(entries):
        return None
    first_open = next((i for i, entry in enumerate(entries) if not _is_done(entry)), len(entries))
    first = max(NUM_FIRST, 1 + max((i for i, span in enumerate(spans) if span.names_thread), default=0))
    entries, spans = entries[first:], spans[first:]
    num_bulk = first_open - NUM_LAST - first
    if num_bulk < MIN_BULK or any(sum(is_created for _, is_created in span.times) != 1 for span in spans):
        return None
    made = {number: i for i, span in enumerate(spans) for number in span.puts}
    gets = [(made.get(number, i), i) for i, span in enumerate(spans) for number in span.gets]
    referred = sorted({maker for maker, i in gets if maker != i})
    if len(referred) > len(spans) // 8:
        return None
    start, ends = spans[0].start, [*(span.start for span in spans[1:]), spans[-1].end]
    own = {(e.get("pg_id"), e.get("thread_id")): i for i, e in reversed(list(enumerate(entries[:num_bulk])))}
    runs = [(num_bulk, num_bulk + NUM_LAST), *((i, i + 1) for i in range(num_bulk + NUM_LAST, len(spans)))]
    return Form(
        entries=entries,
        num_bulk=num_bulk,
        bulk=_piece(data, spans[:num_bulk], ends[num_bulk - 1]),
        last=[(_piece(data, spans[a:b], ends[b - 1]), b - a) for a, b in runs],
        referred=b"".join(data[spans[i].start : spans[i].end] + _POP for i in referred if i < num_bulk),
        samples=tuple((spans[i].start - start, spans[i].end - start) for i in own.values()),
    )


class FormReader:
    """Unpickles dumps, each in full or by the form that it has. See [Note: dumps of one form]."""

    def __init__(self) -> None:
        self._forms: list[Form] = []
        self._num_unknown = 0
        self._patience = NUM_UNKNOWN
        self._was_used = True

    def load(self, data: bytes) -> Any:
        """The plain value in `data`; of a dump of a known form ``entries`` is a `FormedEntries`.

        Raises ValueError as `load_plain` does.
        """
        for number, form in enumerate(self._forms):
            value = self._formed(data, form)
            if value is not None:
                self._was_used = True
                if number:
                    self._forms.insert(0, self._forms.pop(number))
                return value
        value = load_plain(data)
        self._num_unknown += 1
        if self._num_unknown >= self._patience and data[:2] == b"\x80\x02":
            self._learn(data, value)
        return value

    def _learn(self, data: bytes, value: Any) -> None:
        entries = value.get("entries") if isinstance(value, dict) else None
        if not isinstance(entries, list) or len(entries) < MIN_BULK:
            return
        self._patience = NUM_UNKNOWN if self._was_used else 2 * self._patience
        self._num_unknown = 0
        form = _form(data, entries)
        if form is not None:
            self._forms = [form, *self._forms[: MAX_FORMS - 1]]
        self._was_used = False

    @staticmethod
    def _formed(data: bytes, form: Form) -> Any:
        """The dump as one of this form; None where it is of another one."""
        start = data.find(form.bulk.literals[0])
        if start < 0 or not form.bulk.is_at(data, start):
            return None
        end, count = start + form.bulk.size, form.num_bulk
        created = form.bulk.times.unpack_from(data, start)
        for piece, number in form.last:
            if not piece.is_at(data, end):
                break
            created += piece.times.unpack_from(data, end)
            end, count = end + piece.size, count + number
        samples = b"".join(data[start + a : start + b] for a, b in form.samples)
        try:
            value = load_plain(data[:start] + form.referred + _NONE + samples + _NONE + data[end:])
            entries = value["entries"]
            left = entries.index(None)
            right = entries.index(None, left + 1)
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
        value["entries"] = FormedEntries(
            first=entries[:left],
            samples=entries[left + 1 : right],
            last=entries[right + 1 :],
            form=form,
            num_shared=count,
            created_ns=created,
        )
        return value
