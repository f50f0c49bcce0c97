"""Who is waited for, rank by step: the files of a run's ``lag/`` folder, written by each host's watcher, bounded.

[Note: lag files]
A cell is a rank's own time in a step less the median of the ranks of its host that run the same program; the medians
stand beside it, so a reader compares hosts too. Cells are bytes on a logarithmic scale: 0 unknown, 1 up to 0.1 ms, 255
from 1,000 s, 7% apart. The newest 4,096 steps are kept one by one, as many groups of 16 before these, then of 256, with
the greatest and the mean of each group: at 1,024 ranks of one host at most 50 MB, which reach back a million steps.

A segment ``HOST-LEVEL-NUMBER.lag`` is a row of blocks: magic, length, CRC-32 of what follows, a header in JSON, arrays
of little-endian numbers. A block that is cut or damaged ends its segment for a reader. A finer level, and then a later
block, says the last word on a step.
"""

import json
import math
import os
import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

LEVELS = (1, 16, 256)
SEGMENT_ROWS = 1024
MAX_SEGMENTS = 4
"""Full segments that are kept of a level, besides the one that is being written."""
MAX_SEGMENT_BYTES = 64 << 20
MAX_HEADER_BYTES = 4 << 20
LEAST_S, MOST_S = 1e-4, 1e3
_MAGIC = b"EWL1"
_HEAD = struct.Struct("<4sII")
_NAME = re.compile(r"(?P<host>.+)-(?P<level>\d{3})-(?P<number>\d{6})\.lag")
_SCALE = 253 / math.log(MOST_S / LEAST_S)
_SECONDS = np.concatenate([[np.nan, 0.0], LEAST_S * np.exp(np.arange(254) / _SCALE)])
Bytes = NDArray[np.uint8]


def lag_cells(lag_s: NDArray[np.float64]) -> Bytes:
    """Seconds as cells; NaN is 0, unknown."""
    codes = 1 + np.rint(_SCALE * np.log(np.clip(lag_s, LEAST_S, MOST_S) / LEAST_S)) + (lag_s > LEAST_S)
    return np.where(np.isnan(lag_s), 0, np.clip(codes, 1, 255)).astype(np.uint8)


def lag_seconds(cells: Bytes) -> NDArray[np.float64]:
    """Cells as seconds, to 4%; 0 is NaN, and 1 is 0."""
    return _SECONDS[cells]


@dataclass(frozen=True, slots=True, kw_only=True)
class LagRows:
    """Steps of the ranks of one host, ascending. `program_of` indexes `programs` for each rank.

    `steps` and `length_s` have a row each; `middle_s` is (rows, programs), `most` and `mean` are (rows, ranks), see
    [Note: lag files]. At level 1 `mean` is `most`. A coarser row stands for the steps up to and with its own.
    `host`: who wrote them, of rows that were read.
    """

    level: int
    ranks: tuple[int, ...]
    programs: tuple[str, ...]
    program_of: tuple[int, ...]
    steps: NDArray[np.int64]
    length_s: NDArray[np.float32]
    middle_s: NDArray[np.float32]
    most: Bytes
    mean: Bytes
    host: str | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for rows that can be put together."""
        return (self.ranks, self.programs, self.program_of)


class LagWriter:
    """Appends to a host's segments in `folder` and folds what grows old. One writer a host; nothing here waits."""

    def __init__(self, folder: Path, host: str) -> None:
        self._folder = folder
        self._name = host
        self._host = re.sub(r"[^A-Za-z0-9._]", "_", host)[:64] or "host"
        self._known: dict[int, list[tuple[int, Path]]] | None = None
        """Of each level the segments, ascending. Read once: beside those of thousands of hosts a look is dear."""
        self._num_rows: dict[Path, int] = {}

    def write(self, rows: LagRows) -> None:
        """Appends rows of level 1. Raises OSError when the folder cannot be written."""
        self._folder.mkdir(exist_ok=True)
        self._append(rows)
        for level, coarser in zip(LEVELS, (*LEVELS[1:], None), strict=True):
            segments = self._segments(level)
            while len(segments) - 1 > MAX_SEGMENTS:
                _, old = segments.pop(0)
                if coarser is not None:
                    for folded in fold(list(read_segment(old)), coarser):
                        self._append(folded)
                old.unlink(missing_ok=True)
                self._num_rows.pop(old, None)

    def _append(self, rows: LagRows) -> None:
        segments = self._segments(rows.level)
        number, path = segments[-1] if segments else (0, None)
        if path is not None and path not in self._num_rows:
            self._num_rows[path] = sum(len(each.steps) for each in read_segment(path))
        if path is None or self._num_rows[path] >= SEGMENT_ROWS:
            number += 1
            path = self._folder / f"{self._host}-{rows.level:03d}-{number:06d}.lag"
            segments.append((number, path))
        data = _block(rows, host=self._name)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(descriptor, data)
        finally:
            os.close(descriptor)
        self._num_rows[path] = self._num_rows.get(path, 0) + len(rows.steps)

    def _segments(self, level: int) -> list[tuple[int, Path]]:
        if self._known is None:
            self._known = {each: [] for each in LEVELS}
            for path in self._folder.glob("*.lag"):
                named = _NAME.fullmatch(path.name)
                if named is not None and named["host"] == self._host and int(named["level"]) in LEVELS:
                    self._known[int(named["level"])].append((int(named["number"]), path))
            for segments in self._known.values():
                segments.sort()
        return self._known[level]


def _block(rows: LagRows, *, host: str) -> bytes:
    head = {
        "host": host,
        "level": rows.level,
        "rows": len(rows.steps),
        "ranks": rows.ranks,
        "programs": rows.programs,
        "program_of": rows.program_of,
    }
    text = json.dumps(head, separators=(",", ":")).encode()
    arrays = [rows.steps.astype("<i8"), rows.length_s.astype("<f4"), rows.middle_s.astype("<f4"), rows.most]
    arrays += [rows.mean] if rows.level > 1 else []
    payload = struct.pack("<I", len(text)) + text + b"".join(array.tobytes() for array in arrays)
    return _HEAD.pack(_MAGIC, len(payload), zlib.crc32(payload)) + payload


def read_segment(path: Path) -> Iterator[LagRows]:
    """The whole blocks of a segment, in order, those of the same ranks and programs put together.

    Nothing of a file that cannot be read.
    """
    blocks = [rows for payload in _payloads(path) if (rows := _rows_of(payload)) is not None]
    for _, alike in groupby(blocks, key=lambda rows: (rows.level, *rows.key)):
        yield joined_lag(list(alike))


def joined_lag(blocks: Sequence[LagRows]) -> LagRows:
    """Blocks of one level and key one after the other; there must be one."""
    if len(blocks) == 1:
        return blocks[0]
    return replace(
        blocks[0],
        steps=np.concatenate([each.steps for each in blocks]),
        length_s=np.concatenate([each.length_s for each in blocks]),
        middle_s=np.concatenate([each.middle_s for each in blocks]),
        most=np.concatenate([each.most for each in blocks]),
        mean=np.concatenate([each.mean for each in blocks]),
    )


def _payloads(path: Path) -> Iterator[bytes]:
    with suppress(OSError), path.open("rb") as file:
        if os.fstat(file.fileno()).st_size > MAX_SEGMENT_BYTES:
            return
        while len(head := file.read(_HEAD.size)) == _HEAD.size:
            magic, length, check = _HEAD.unpack(head)
            if magic != _MAGIC or length > MAX_SEGMENT_BYTES:
                return
            payload = file.read(length)
            if len(payload) != length or zlib.crc32(payload) != check:
                return
            yield payload


@lru_cache(maxsize=8)
def _head_of(text: bytes) -> tuple[str | None, int, int, tuple[int, ...], tuple[str, ...], tuple[int, ...]]:
    """Host, level, rows, ranks, programs, and the program of each rank: a segment's blocks mostly have one header."""
    head = json.loads(text)
    return (
        None if head.get("host") is None else str(head["host"]),
        int(head["level"]),
        int(head["rows"]),
        tuple(int(rank) for rank in head["ranks"]),
        tuple(str(program) for program in head["programs"]),
        tuple(int(each) for each in head["program_of"]),
    )


def _rows_of(payload: bytes) -> LagRows | None:
    try:
        (size,) = struct.unpack_from("<I", payload)
        if size > MAX_HEADER_BYTES:
            return None
        host, level, num_rows, ranks, programs, program_of = _head_of(payload[4 : 4 + size])
        place, arrays = 4 + size, []
        shapes: list[tuple[str, tuple[int, ...]]] = [("<i8", (num_rows,)), ("<f4", (num_rows,))]
        shapes += [("<f4", (num_rows, len(programs))), ("u1", (num_rows, len(ranks)))]
        shapes += [("u1", (num_rows, len(ranks)))] if level > 1 else []
        for kind, shape in shapes:
            count = math.prod(shape)
            arrays.append(np.frombuffer(payload, dtype=kind, count=count, offset=place).reshape(shape))
            place += count * np.dtype(kind).itemsize
        return LagRows(
            level=level,
            ranks=ranks,
            programs=programs,
            program_of=program_of,
            steps=arrays[0],
            length_s=arrays[1],
            middle_s=arrays[2],
            most=arrays[3],
            mean=arrays[-1],
            host=host,
        )
    except (KeyError, TypeError, ValueError, struct.error):
        return None


def fold(blocks: Sequence[LagRows], level: int) -> list[LagRows]:
    """The rows of a finer level in groups of `level` steps: the greatest cell of each rank, and its mean. Pure."""
    out = []
    groups: dict[tuple[object, ...], list[LagRows]] = {}
    for block in blocks:
        groups.setdefault(block.key, []).append(block)
    for members in groups.values():
        first = members[0]
        steps = np.concatenate([each.steps for each in members])
        order = np.argsort(steps, kind="stable")
        steps = steps[order]
        starts = np.flatnonzero(np.diff(steps // level, prepend=-1))
        ends = np.append(starts[1:], len(steps))
        counts = (ends - starts).astype(np.float64)
        length = np.concatenate([each.length_s for each in members])[order]
        middle = np.concatenate([each.middle_s for each in members])[order]
        most = np.concatenate([each.most for each in members])[order]
        mean = lag_seconds(np.concatenate([each.mean for each in members])[order])
        known = ~np.isnan(mean)
        sums = np.add.reduceat(np.where(known, mean, 0.0), starts)
        seen = np.add.reduceat(known, starts)
        out.append(
            LagRows(
                level=level,
                ranks=first.ranks,
                programs=first.programs,
                program_of=first.program_of,
                steps=steps[ends - 1],
                length_s=(np.add.reduceat(length.astype(np.float64), starts) / counts).astype(np.float32),
                middle_s=(np.add.reduceat(middle.astype(np.float64), starts) / counts[:, None]).astype(np.float32),
                most=np.maximum.reduceat(most, starts),
                mean=lag_cells(np.where(seen > 0, sums / np.maximum(seen, 1), np.nan)),
            )
        )
    return out


def read_lag(folder: Path, *, newest: int | None = None) -> list[LagRows]:
    """What a ``lag/`` folder holds, coarse levels first and each in the order written: the last word comes last.

    With `newest`, of each host only the last segments of level 1 that hold so many steps: as quick for a long run.
    """
    found = []
    with suppress(OSError):
        for path in folder.glob("*.lag"):
            named = _NAME.fullmatch(path.name)
            if named is not None and int(named["level"]) in LEVELS:
                found.append((-int(named["level"]), int(named["number"]), named["host"], path))
    if newest is None:
        return [rows for *_, path in sorted(found) for rows in read_segment(path)]
    held: dict[str, int] = {}
    blocks: list[list[LagRows]] = []
    for level, _, host, path in sorted(found, reverse=True):
        if level == -1 and held.get(host, 0) < newest:
            blocks.append(list(read_segment(path)))
            held[host] = held.get(host, 0) + sum(len(rows.steps) for rows in blocks[-1])
    return [rows for segment in reversed(blocks) for rows in segment]
