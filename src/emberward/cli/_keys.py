"""Single keys from a terminal, without Enter."""

import os
import select
import sys
import termios
import time
import tty
from typing import Any


class Keys:
    """Within the block a key is there as soon as it is pressed; Ctrl-C stays Ctrl-C. Without a terminal none comes."""

    def __init__(self, descriptor: int | None = None) -> None:
        """`descriptor` is a terminal's; None: standard input's, if it is one."""
        given = (
            sys.stdin.fileno() if descriptor is None and sys.stdin is not None and sys.stdin.isatty() else descriptor
        )
        self._descriptor = given
        self._before: list[Any] | None = None

    def __enter__(self) -> "Keys":
        if self._descriptor is not None:
            self._before = termios.tcgetattr(self._descriptor)
            tty.setcbreak(self._descriptor)
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None and self._before is not None:
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)

    def wait(self, limit_s: float) -> str | None:
        """The next key; None when none was pressed within `limit_s` seconds."""
        if self._descriptor is None:
            time.sleep(limit_s)
            return None
        ready, _, _ = select.select([self._descriptor], [], [], limit_s)
        data = os.read(self._descriptor, 1) if ready else b""
        if ready and not data:
            # The terminal is gone: nothing will ever come, and select would not wait.
            self._descriptor = None
        return data.decode("ascii", "replace") or None
