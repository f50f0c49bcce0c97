"""Records which statements of the user's program a rank executes, and in which of them each call is made.

[Note: what is kept]
Tracing is Python's own (`sys.settrace`), for the main thread and for the user's files alone. A run of a function stays
when a call was made in it, or when it decided otherwise than each time before; so a helper that runs a million times
costs time and no memory.
"""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from emberward.events import Owner
from emberward.sources._site import SiteFinder

MAX_DEPTH = 64
"""Functions of the user that run inside one another; deeper ones are not recorded."""
MAX_STATEMENTS = 1_000_000
"""Statements that are kept of a rank; of a rank with more of them nothing is told."""


class _Open:
    """A function that runs now."""

    __slots__ = ("code", "frame_items", "is_kept", "line")

    def __init__(self, code: CodeType, frame_items: list[Any]) -> None:
        self.code = code
        self.frame_items = frame_items
        self.line = 0
        self.is_kept = False


class StatementRecorder:
    """Traces the current thread between `start` and `stop`. `num_calls` counts the calls recorded so far.

    What it keeps is a tree of lists: a function is ``[file, name, *items]``, where an item is a line (negative when
    control came there from the line before for the first time and had gone elsewhere), ``[n]`` for call n, or a
    function.
    """

    def __init__(self, finder: SiteFinder, num_calls: Callable[[], int]) -> None:
        self._finder = finder
        self._num_calls = num_calls
        self._root: list[Any] = ["", ""]
        self._stack: list[_Open] = []
        self._names: dict[CodeType, list[str] | None] = {}
        self._ways: dict[tuple[CodeType, int], set[int]] = {}
        self._seen = 0
        self._num_real: int | None = None
        self._is_whole = False
        self._left = MAX_STATEMENTS

    def start(self) -> None:
        """Begins with the functions that are called from now on."""
        sys.settrace(self._enter)

    def stop(self) -> None:
        """Ends the recording. Of a program that set a trace of its own, or ended ours, nothing is told."""
        self._is_whole = sys.gettrace() == self._enter
        sys.settrace(None)
        self._take_calls()

    def mark_free(self) -> None:
        """What is called from now on has made-up values."""
        self._num_real = self._num_calls()

    def write(self, path: Path, events: Sequence[int]) -> None:
        """Writes the tree and the call numbers of the rank's events; nothing where it is not whole."""
        if self._left > 0 and self._is_whole:
            num_real = self._num_calls() if self._num_real is None else self._num_real
            answer = {"events": list(events), "num_real": num_real, "root": self._root}
            path.write_text(json.dumps(answer), encoding="utf-8")

    def _enter(self, frame: FrameType, event: str, argument: object) -> Any:
        del argument
        code = frame.f_code
        if code not in self._names:
            owner, name = self._finder.whose(code.co_filename)
            self._names[code] = [name, code.co_name] if owner is Owner.USER else None
        names = self._names[code]
        if names is None or event != "call" or len(self._stack) >= MAX_DEPTH or self._left <= 0:
            return None
        self._take_calls()
        items: list[Any] = list(names)
        (self._stack[-1].frame_items if self._stack else self._root).append(items)
        self._stack.append(_Open(code, items))
        return self._step

    def _step(self, frame: FrameType, event: str, argument: object) -> Any:
        del argument
        if not self._stack or self._stack[-1].code is not frame.f_code:
            return None  # the program traces itself
        if event == "line":
            self._take_calls()
            self._line(self._stack[-1], frame.f_lineno)
        elif event == "return":
            self._take_calls()
            self._leave()
        return self._step

    def _line(self, here: _Open, line: int) -> None:
        ways = self._ways.setdefault((here.code, here.line), set())
        is_new = line not in ways
        if is_new:
            is_new = bool(ways) and here.line > 0
            ways.add(line)
            here.is_kept = here.is_kept or is_new
        here.line = line
        here.frame_items.append(-line if is_new else line)
        self._left -= 1

    def _leave(self) -> None:
        here = self._stack.pop()
        self._ways.setdefault((here.code, here.line), set()).add(0)
        outer = self._stack[-1] if self._stack else None
        if here.is_kept:
            if outer is not None:
                outer.is_kept = True
            return
        items = outer.frame_items if outer is not None else self._root
        self._left += len(here.frame_items) - 2
        items.pop()

    def _take_calls(self) -> None:
        """Puts the calls made since the last time into the function that runs."""
        number = self._num_calls()
        if number > self._seen and self._stack:
            self._stack[-1].frame_items.extend([each] for each in range(self._seen, number))
            self._stack[-1].is_kept = True
        self._seen = number
