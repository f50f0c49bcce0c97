"""Finds the user's line of a call while its frames are there. Whose a frame is: `events` [Note: whose line]."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType

from emberward.events import Owner, Site, main_package, owner_of

MAX_FRAMES = 200
"""Frames that are searched for the user's; deeper stacks have no site."""


class SiteFinder:
    """Gives the site of the call that is being recorded. Never raises.

    Files below one of `roots` are named relative to it, the first that fits; others by their whole path. `program`,
    asked at the first call: the installed package that is the program itself, None when it is a script.
    """

    def __init__(self, roots: Sequence[Path] = (), *, program: Callable[[], str | None] = main_package) -> None:
        self._roots = tuple(str(root).rstrip("/") + "/" for root in roots)
        self._ask = program
        self._program: str | None = None
        self._files: dict[str, tuple[Owner, str]] = {}

    def here(self) -> Site | None:
        """The innermost user's line above the caller; where there is none, a package's; else None."""
        frame: FrameType | None = sys._getframe(1)
        inner: Site | None = None
        for _ in range(MAX_FRAMES):
            if frame is None:
                break
            owner, name = self.whose(frame.f_code.co_filename)
            if owner is Owner.USER:
                site = _site(frame, name)
                return site if inner is None else replace(site, through=str(inner))
            if owner is Owner.PACKAGE and inner is None:
                inner = _site(frame, name)
            frame = frame.f_back
        return inner

    def of(self, frame: FrameType) -> Site | None:
        """The site of `frame` itself; None when it is not the user's."""
        owner, name = self.whose(frame.f_code.co_filename)
        return _site(frame, name) if owner is Owner.USER else None

    def whose(self, file: str) -> tuple[Owner, str]:
        """Whose the frames of a file are, and how the file is shown. Remembered: reads no disk the second time."""
        found = self._files.get(file)
        if found is None:
            if not self._files:
                self._program = self._ask()
            root = next((root for root in self._roots if file.startswith(root)), "")
            found = self._files[file] = owner_of(file, self._program), file[len(root) :]
        return found


def _site(frame: FrameType, name: str) -> Site:
    return Site(file=name, line=frame.f_lineno, function=frame.f_code.co_name)
