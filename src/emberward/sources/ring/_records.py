"""The table of a ring, read."""

import zlib
from collections.abc import Iterator

from emberward.events import Group, Phase, Site, Stage
from emberward.sources.ring._format import RECORD, Record
from emberward.sources.ring._view import ThreadName

MAX_GROUP_RANKS = 1 << 20


class Records:
    """The records of a table by their number, up to the first that does not fit its check."""

    def __init__(self, data: bytes | bytearray, *, start: int, size: int) -> None:
        self.texts: dict[int, str] = {}
        self.sites: dict[int, Site] = {}
        self.groups: dict[int, Group] = {}
        self.shapes: dict[int, tuple[int, ...]] = {}
        self.phases: dict[int, Phase] = {}
        self.problems: list[str] = []
        self.facts: dict[str, str] = {}
        threads: dict[int, ThreadName] = {}
        for number, (kind, payload) in enumerate(_records(data, start, size), start=1):
            try:
                self._take(number, kind, payload, threads)
            except (ValueError, IndexError):
                self.problems.append(f"record {number} of its table is damaged")
        self.threads = tuple(
            threads.get(i, ThreadName(native_id=0, name="")) for i in range(max(threads, default=-1) + 1)
        )

    def _take(self, number: int, kind: int, payload: bytes, threads: dict[int, ThreadName]) -> None:
        if kind == Record.SHAPE:
            self.shapes[number] = tuple(map(int, payload.split(b","))) if payload else ()
            return
        text = _text(payload)
        if kind == Record.TEXT:
            self.texts[number] = text
        elif kind == Record.PHASE:
            stage, name = text.split("\0")
            self.phases[number] = Phase(stage=Stage(stage) if stage else None, name=name or None)
        elif kind == Record.FACT:
            name, value = text.split("\0")
            self.facts[name] = value
        elif kind == Record.PROBLEM:
            self.problems.append(text)
        elif kind == Record.SITE:
            file, line, function, *through = text.split("\0")
            self.sites[number] = Site(
                file=file, line=int(line), function=function or None, through=through[0] if through else None
            )
        elif kind == Record.GROUP:
            index, label, ranks = text.split("\0")
            self.groups[number] = Group(ranks=_ranks(ranks), index=int(index), label=label or None)
        elif kind == Record.THREAD:
            index, native_id, name = text.split("\0")
            if int(index) < 1 << 16:
                threads[int(index)] = ThreadName(native_id=int(native_id), name=name)


def _records(data: bytes | bytearray, start: int, size: int) -> Iterator[tuple[int, bytes]]:
    at, end = start, start + size
    while at + RECORD.size <= end:
        crc, kind, length = RECORD.unpack_from(data, at)
        payload = data[at + RECORD.size : at + RECORD.size + length]
        if len(payload) < length or crc != zlib.crc32(data[at + 4 : at + RECORD.size + length]):
            return
        yield kind, bytes(payload)
        at += -(-(RECORD.size + length) // 8) * 8


def _text(payload: bytes) -> str:
    return payload.decode("utf-8", "replace")


def _ranks(text: str) -> tuple[int, ...]:
    numbers = [int(part) for part in text[1:].split(",")]
    if text.startswith("l"):
        return tuple(numbers)
    first, last, stride = numbers
    if stride <= 0 or (last - first) // stride > MAX_GROUP_RANKS:
        raise ValueError("a group of no ranks")
    return tuple(range(first, last + 1, stride))
