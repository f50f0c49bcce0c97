"""What a person or a program sees: data on standard output, people's text on standard error, one JSON document."""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, TextIO

from emberward.cli._called import called_as
from emberward.findings import Finding, as_typed

if TYPE_CHECKING:
    from rich.console import Console

_PROGRESS_EVERY_S = 2.0
MAX_SILENCE_S = 30.0


class Screen:
    """Where a verb writes. With `is_json` people's text goes to standard error and the document to standard output.

    `width` is the number of columns that text is fitted to. Not given, it is the terminal's, and None where text goes
    into a file or a pipe: there lines stay whole.
    """

    def __init__(self, *, is_json: bool, width: int | None = None, program: str | None = None) -> None:
        self.is_json = is_json
        self.program = called_as() if program is None else program
        """What the person types for `emberward`; not given, as it was called."""
        self.written: dict[str, Any] | None = None
        """The document that was written last, whether it was asked for or not."""
        self._width = width

    @property
    def width(self) -> int | None:
        """Columns of the person's side; None off a terminal."""
        if self._width is not None:
            return self._width
        stream = sys.stderr if self.is_json else sys.stdout
        return self.console.width if stream.isatty() else None

    @cached_property
    def console(self) -> "Console":
        """What redraws the person's side of a terminal."""
        from rich.console import Console  # imported here for the time that it saves the verbs that only print

        return Console(stderr=self.is_json, highlight=False, soft_wrap=True)

    @property
    def is_live(self) -> bool:
        """Whether the person's side is a terminal that can redraw a line."""
        return self.console.is_terminal

    def say(self, text: str) -> None:
        """Prints text for people."""
        _print(self._typed(text, self.width), sys.stderr if self.is_json else sys.stdout)

    def complain(self, text: str) -> None:
        """Prints text about an error for people, on standard error."""
        _print(self._typed(text, self.width if sys.stderr.isatty() or self._width else None), sys.stderr)

    def _typed(self, text: str, width: int | None) -> str:
        """The text, its commands with the program as the person called it."""
        return _fitted(as_typed(text, self.program), width)

    def document(self, findings: Sequence[Finding], **values: Any) -> None:
        """Prints the command's one JSON document, when one was asked for."""
        self.written = {"schema": 1, "findings": [finding.to_json() for finding in findings], **values}
        if self.is_json:
            sys.stdout.write(json.dumps(self.written) + "\n")
            sys.stdout.flush()


def _fitted(text: str, width: int | None) -> str:
    if width is None:
        return text
    from emberward.report import fit  # imported here for the time that it saves the verbs that only print

    return fit(text, width)


def _print(text: str, stream: TextIO) -> None:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    # A terminal without UTF-8 shows a question mark, and no verb ends over it.
    stream.write(text.encode(encoding, "replace").decode(encoding) + "\n")
    stream.flush()


class Told:
    """Tells how far work on bytes is, how fast it goes, and how long the rest takes at that speed; each two seconds."""

    def __init__(self, what: str, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._say = say
        self._clock = clock
        self._began_s = self._last_s = clock()
        self._first_bytes: int | None = None

    def __call__(self, done_bytes: int, total_bytes: int) -> None:
        """Takes the bytes that are done and the bytes that there are. What an earlier start did is no speed."""
        now_s = self._clock()
        if self._first_bytes is None:
            self._first_bytes = done_bytes
        if now_s - self._last_s < _PROGRESS_EVERY_S or total_bytes == 0:
            return
        self._last_s = now_s
        rate = (done_bytes - self._first_bytes) / (now_s - self._began_s)
        left = f", {(total_bytes - done_bytes) / rate:.0f} s left" if rate > 0 else ""
        share = f"{100 * done_bytes / total_bytes:.0f}%, {done_bytes / 1e6:.0f} of {total_bytes / 1e6:.0f} MB"
        self._say(f"{self._what}: {share}, {rate / 1e6:.0f} MB/s{left}")


class ProgressLines:
    """Tells which share of each of several works is done, and how long its rest takes; each two seconds."""

    def __init__(self, screen: Screen, clock: Callable[[], float] = time.monotonic) -> None:
        self._screen = screen
        self._clock = clock
        self._label: str | None = None
        self._began_s = self._last_s = clock()
        self._first = 0.0

    def __call__(self, label: str, fraction: float) -> None:
        """Takes the share of the work that is done."""
        now_s = self._clock()
        if label != self._label:
            self._label, self._began_s, self._first = label, now_s, fraction
        if now_s - self._last_s >= _PROGRESS_EVERY_S:
            self._last_s = now_s
            rate = (fraction - self._first) / (now_s - self._began_s) if now_s > self._began_s else 0.0
            left = f", {(1 - fraction) / rate:.0f} s left" if rate > 0 else ""
            self._screen.say(f"{label}: {100 * fraction:.0f}%{left}")


class Waiting:
    """Says on standard error how long something has been waited for: after 2 s, then at times that double to 30 s.

    Call it with the seconds that have passed, as often as one likes. `limit_s`: when the wait ends, None without one.
    `parts`: what the work consists of, where it can be counted; then it says how long the rest takes at that speed.
    """

    def __init__(self, screen: Screen, what: str, *, limit_s: float | None, parts: str = "") -> None:
        self._screen = screen
        self._what = what
        self._parts = parts
        self._limit = "" if limit_s is None else f", at most {limit_s:.0f} s"
        self._next_s = _PROGRESS_EVERY_S

    def __call__(self, passed_s: float, done: int = 0, total: int = 0) -> None:
        """Takes the seconds that have passed, and how many of the parts are done: of `total`, 0 when nobody knows."""
        if passed_s >= self._next_s:
            self._next_s = passed_s + min(passed_s, MAX_SILENCE_S)
            left = f", about {passed_s * (total - done) / done:.0f} s left" if done and total else ""
            counted = f", {done}{f' of {total}' if total else ''} {self._parts}{left}" if done or total > 1 else ""
            self._screen.complain(f"{self._what}: {passed_s:.0f} s{counted}{self._limit}")


@contextmanager
def waiting_for(screen: Screen, what: str, *, limit_s: float | None = None) -> Iterator[None]:
    """Says how long the block has taken, as `Waiting` does, from a thread of its own."""
    waiting, is_over, began_s = Waiting(screen, what, limit_s=limit_s), threading.Event(), time.monotonic()

    def say() -> None:
        while not is_over.wait(0.5):
            waiting(time.monotonic() - began_s)

    thread = threading.Thread(target=say, name="waiting", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(1.0)
