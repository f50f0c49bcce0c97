"""Lines of a run's files that wait when the disk is full: a supervisor outlives what ends its job."""

import contextlib
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from emberward.report import append_line, write_json

MAX_WAITING = 1000


class LateLines:
    """Appends JSON lines in order; those that cannot be written wait for the next call, at most MAX_WAITING of them."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Path, Mapping[str, Any]]] = deque(maxlen=MAX_WAITING)

    def append(self, path: Path, value: Mapping[str, Any]) -> bool:
        """Writes the line, after those that wait; whether none waits any more."""
        self._waiting.append((path, value))
        return self.flush()

    def flush(self) -> bool:
        """Writes what waits, as far as it goes; whether none waits any more."""
        while self._waiting:
            path, value = self._waiting[0]
            try:
                append_line(path, value)
            except OSError:
                return False
            self._waiting.popleft()
        return True


LINES = LateLines()
"""This process's own: what waits outlives the attempt that wrote it."""


def write_if_possible(path: Path, value: Mapping[str, Any]) -> None:
    """Writes the object like `write_json`; on a full disk the old one stays."""
    with contextlib.suppress(OSError):
        write_json(path, value)
