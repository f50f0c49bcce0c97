"""Stacks as values: processes, their threads, their frames, whatever tool printed them."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from itertools import chain
from pathlib import PurePosixPath

from emberward.events import Owner, owner_of, package_of


class StackSource(StrEnum):
    """The tool that printed a stack."""

    PY_SPY = "py-spy"
    FAULTHANDLER = "faulthandler"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One call of a stack. `line` is None for native frames. `program`: see `of_program`."""

    function: str
    file: str
    line: int | None = None
    program: str | None = field(default=None, compare=False)

    @property
    def site(self) -> str:
        """``file:line``, as short as people say it."""
        name = short_path(self.file)
        return name if self.line is None else f"{name}:{self.line}"

    @property
    def is_native(self) -> bool:
        """Whether the frame is C or C++."""
        return not self.file.endswith(".py") and not self.file.startswith("<") and ".py:" not in self.file

    @property
    def owner(self) -> Owner:
        """Whose the frame is. See `events` [Note: whose line]."""
        return Owner.PLATFORM if self.is_native else owner_of(self.file, self.program)

    @property
    def is_platform(self) -> bool:
        """Whether the frame is Python's, torch's or ours: what somebody's code, a package's too, stands upon."""
        return self.owner in (Owner.PLATFORM, Owner.OURS)

    @property
    def is_library(self) -> bool:
        """Whether the frame is an installed package's, Python's, torch's or ours: not a line of the user's."""
        return self.owner is not Owner.USER


LineOf = Callable[[Frame], str | None]
"""Gives the source line of a frame where the program's text is at hand, else None."""


def no_source(_: Frame) -> str | None:
    """Says that no program text is at hand."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadStack:
    """One thread: frames innermost first. `is_active` is the tool's own guess, None when it made none."""

    name: str | None
    frames: tuple[Frame, ...]
    os_thread_id: int | None = None
    thread_ident: int | None = None
    is_active: bool | None = None
    has_gil: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStacks:
    """One process. `rank` and `host` are None when nothing in the evidence tells them; `section` counts the separate
    looks found in one document."""

    pid: int | None
    threads: tuple[ThreadStack, ...]
    path: str
    source: StackSource
    rank: int | None = None
    host: str | None = None
    parent_pid: int | None = None
    command: str | None = None
    section: int = 0
    stopped: str | None = None
    """What the tool said when it could take no stack because a signal had stopped the process."""

    def __post_init__(self) -> None:
        main = self.main
        program = None if main is None else program_of(main.frames)
        if program is not None:
            told = tuple(replace(thread, frames=of_program(thread.frames, program)) for thread in self.threads)
            object.__setattr__(self, "threads", told)

    @property
    def main(self) -> ThreadStack | None:
        """The main thread, as far as it can be told."""
        named = (thread for thread in self.threads if thread.name == "MainThread")
        first = (t for t in self.threads if t.os_thread_id is not None and t.os_thread_id == self.pid)
        began = (t for t in self.threads if any(frame.function == "<module>" for frame in t.frames))
        return next(chain(named, first, began, reversed(self.threads)), None)

    @property
    def who(self) -> str:
        """How people call it: its rank, else its process."""
        if self.rank is not None:
            return f"rank {self.rank}"
        return "a process without a number" if self.pid is None else f"process {self.pid}"


@lru_cache(maxsize=4096)
def short_path(path: str) -> str:
    """The path below site-packages, the library folder or a project's ``src``, else the file's name."""
    parts = PurePosixPath(path).parts
    for marker in ("site-packages", "dist-packages"):
        if marker in parts[:-1]:
            return "/".join(parts[parts.index(marker) + 1 :])
    for index, part in enumerate(parts[:-1]):
        if part.startswith("python3.") and index > 0:
            return "/".join(parts[index + 1 :])
    if "src" in parts[:-1]:
        # Where projects keep their packages (packaging.python.org, "src layout"): the folder tells which of them it is.
        return "/".join(parts[len(parts) - parts[::-1].index("src") :])
    return parts[-1] if path.startswith("/") else path


def program_of(frames: tuple[Frame, ...]) -> str | None:
    """The installed package in which a stack begins, as under ``python -m package.train``; None for a user's script."""
    for frame in reversed(frames):
        if not frame.is_native and owner_of(frame.file) is not Owner.PLATFORM:
            return package_of(frame.file)
    return None


def of_program(frames: tuple[Frame, ...], program: str | None) -> tuple[Frame, ...]:
    """The frames of a process whose program is that installed package: its files count as the user's then."""
    return frames if program is None else tuple(replace(frame, program=program) for frame in frames)


def user_frame(frames: tuple[Frame, ...]) -> Frame | None:
    """The innermost frame of the user's; None when there is none."""
    return next((frame for frame in frames if not frame.is_library), None)


def code_frame(frames: tuple[Frame, ...]) -> Frame | None:
    """The innermost frame of somebody's code, the user's or an installed package's: it tells what a thread does."""
    return next((frame for frame in frames if not frame.is_platform), None)


def may_act(frames: tuple[Frame, ...]) -> bool:
    """Whether a thread may do something for the program: no thread of the recorder's or torch's own, nor a native one.

    A thread of a pool that copies files has none but frames of the standard library. One of the program's that is in a
    recorded call has a frame of the recorder's inside its own. A lane acts while it is in a task.
    """
    if is_lane(frames):
        inner = next(frame for frame in frames if not frame.is_native)
        return not _waits_for_tasks(inner)
    began = next((frame for frame in reversed(frames) if frame.owner is not Owner.PLATFORM), None)
    if began is not None and began.owner is Owner.OURS:
        return False
    python = [frame for frame in frames if not frame.is_native]
    return code_frame(frames) is not None or bool(python and not any(package_of(f.file) == "torch" for f in python))


def is_lane(frames: tuple[Frame, ...]) -> bool:
    """Whether the thread is one of `emberward.lanes`."""
    return any(_waits_for_tasks(frame) for frame in frames)


def _waits_for_tasks(frame: Frame) -> bool:
    """Whether the frame is the loop of a lane's thread, which waits where nothing is inside it."""
    return frame.function.rpartition(".")[2] == "_work" and frame.file.endswith("emberward/lanes/_lane.py")


def package_frame(frames: tuple[Frame, ...]) -> Frame | None:
    """The innermost frame of an installed package that the user's line called; None when it called torch itself."""
    for frame in frames:
        if frame.owner in (Owner.USER, Owner.PACKAGE):
            return frame if frame.owner is Owner.PACKAGE else None
    return None


def place_of(user: str | None, inner: Frame | None) -> str | None:
    """Where a call stands, for comparisons: the user's line, and the package's that it called.

    One line of the user's stands for all calls of a trainer; those of the trainer tell them apart.
    """
    return " > ".join(line for line in (user, None if inner is None else inner.site) if line is not None) or None
