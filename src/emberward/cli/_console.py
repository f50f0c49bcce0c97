"""What a person or a program sees: data on standard output, people's text on standard error, one JSON document."""

import json
import sys
import time
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TextIO

from emberward.findings import Finding

if TYPE_CHECKING:
    from rich.console import Console

_PROGRESS_EVERY_S = 2.0


class Screen:
    """Where a verb writes. With `is_json` people's text goes to standard error and the document to standard output."""

    def __init__(self, *, is_json: bool) -> None:
        self.is_json = is_json

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
        """Prints text for people as it is."""
        _print(text, sys.stderr if self.is_json else sys.stdout)

    def complain(self, text: str) -> None:
        """Prints text about an error for people, on standard error."""
        _print(text, sys.stderr)

    def document(self, findings: Sequence[Finding], **values: Any) -> None:
        """Prints the command's one JSON document, when one was asked for."""
        if self.is_json:
            body = {"schema": 1, "findings": [finding.to_json() for finding in findings], **values}
            sys.stdout.write(json.dumps(body) + "\n")
            sys.stdout.flush()


def _print(text: str, stream: TextIO) -> None:
    stream.write(text + "\n")
    stream.flush()


class Told:
    """A progress callback that prints a line only for work that takes over two seconds."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._began_s = time.monotonic()
        self._last_s = self._began_s

    def __call__(self, label: str, fraction: float) -> None:
        """Takes the share of the work that is done."""
        now_s = time.monotonic()
        if now_s - self._last_s >= _PROGRESS_EVERY_S:
            self._last_s = now_s
            self._screen.say(f"{label}: {100 * fraction:.0f}%")
