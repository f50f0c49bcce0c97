"""Reading a run's folder while others write it: whole lines only, bounded, and never an exception for a half file."""

import json
import os
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Any

from emberward.files import anew

MAX_JSON_BYTES = 64 * 2**20
MAX_POLL_BYTES = 16 * 2**20

JsonObject = dict[str, Any]


def read_json(path: Path) -> JsonObject | None:
    """The JSON object in `path`; None when it is missing, cut, over MAX_JSON_BYTES or something else than an object."""
    try:
        text = anew(lambda: _text(path))
        value = None if text is None else json.loads(text)
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def _text(path: Path) -> bytes | None:
    # Unbuffered and undecoded: a page of 16,384 ranks reads as many files.
    with FileIO(path) as file:
        return None if os.fstat(file.fileno()).st_size > MAX_JSON_BYTES else file.readall()


def parse_line(line: bytes) -> JsonObject | None:
    """The JSON object of a line; None for anything else, such as a line that a crash cut."""
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


class LineTail:
    """Follows a file of JSON lines as it grows. A last line without its newline waits for the next poll.

    A file that shrank or was replaced is read from its start again.
    """

    def __init__(self, path: Path, *, from_end: bool = False) -> None:
        self._path = path
        self._offset = 0
        self._inode: int | None = None
        if from_end:
            try:
                found = path.stat()
            except OSError:
                return
            self._offset, self._inode = found.st_size, found.st_ino

    @property
    def offset_bytes(self) -> int:
        """How much of the file was read."""
        return self._offset

    def poll(self) -> list[JsonObject]:
        """The objects written since the last call, at most MAX_POLL_BYTES of them; [] when there are none."""
        try:
            data = anew(self._read)
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return [value for line in whole.splitlines() if (value := parse_line(line)) is not None]

    def _read(self) -> bytes:
        with self._path.open("rb") as file:
            found = os.fstat(file.fileno())
            if found.st_ino != self._inode or found.st_size < self._offset:
                self._offset, self._inode = 0, found.st_ino
            file.seek(self._offset)
            return file.read(min(found.st_size - self._offset, MAX_POLL_BYTES))


def read_lines(path: Path) -> Iterator[JsonObject]:
    """The objects of a file of JSON lines, in order; a cut or foreign line is left out. Nothing when it is missing."""
    tail = LineTail(path)
    before: int | None = None
    while before != tail.offset_bytes:
        before = tail.offset_bytes
        yield from tail.poll()


def tail_text(path: Path, *, num_lines: int, since_byte: int = 0, max_bytes: int = 64 * 1024) -> list[str]:
    """The last `num_lines` lines that `path` got after `since_byte`, from its last `max_bytes`; [] when unreadable."""

    def read() -> bytes:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(since_byte, size - max_bytes))
            return file.read(max_bytes)

    try:
        text = anew(read).decode("utf-8", errors="replace")
    except OSError:
        return []
    return text.splitlines()[-num_lines:]
