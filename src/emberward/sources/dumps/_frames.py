"""Stacks as values: processes, their threads, their frames, whatever tool printed them."""

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import PurePosixPath

_STDLIB_FILES = frozenset(
    """
    threading.py queue.py selectors.py socket.py subprocess.py contextlib.py functools.py runpy.py
    socketserver.py ssl.py codecs.py tempfile.py shutil.py gzip.py weakref.py _weakrefset.py copy.py
    pickle.py connection.py popen_fork.py popen_spawn_posix.py synchronize.py managers.py pathlib.py
    _bootstrap.py process.py resource_tracker.py pool.py thread.py base_events.py
    """.split()  # noqa: SIM905 (a list of thirty words is read as words)
)
_LIBRARY_DIRS = (
    "torch",
    "numpy",
    "multiprocessing",
    "concurrent",
    "asyncio",
    "importlib",
    "json",
    "logging",
    "encodings",
    # These call what others wrote, and stand between it and whoever asked.
    "tqdm",
    "wrapt",
    "beartype",
    "typeguard",
    "jaxtyping",
)
_WRAPPERS = frozenset({"typing_extensions.py", "decorator.py", "six.py", "deprecated.py"})


class StackSource(StrEnum):
    """The tool that printed a stack."""

    PY_SPY = "py-spy"
    FAULTHANDLER = "faulthandler"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One call of a stack. `line` is None for native frames."""

    function: str
    file: str
    line: int | None = None

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
    def is_library(self) -> bool:
        """Whether the frame belongs to Python's library or to torch: not a line that a user wrote."""
        return self.is_native or _is_library_file(self.file)


@lru_cache(maxsize=4096)
def _is_library_file(file: str) -> bool:
    if file.startswith("<frozen"):
        return True
    parts = PurePosixPath(file).parts
    if any(part.startswith("python3.") for part in parts[:-1]) and "site-packages" not in parts:
        return True
    package = parts[parts.index("site-packages") + 1] if "site-packages" in parts[:-1] else parts[0] if parts else ""
    if len(parts) > 1 and package in _LIBRARY_DIRS:
        return True
    # The recorder's own frames lie between torch's and the user's.
    if "emberward" in parts[:-2] and parts[parts.index("emberward") + 1] == "sources":
        return True
    if parts and parts[-1] in _WRAPPERS and (len(parts) == 1 or "site-packages" in parts):
        return True
    return len(parts) == 1 and file in _STDLIB_FILES


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

    @property
    def main(self) -> ThreadStack | None:
        """The main thread, as far as it can be told."""
        for thread in self.threads:
            if thread.name == "MainThread":
                return thread
        for thread in self.threads:
            if thread.os_thread_id is not None and thread.os_thread_id == self.pid:
                return thread
        for thread in self.threads:
            if any(frame.function == "<module>" for frame in thread.frames):
                return thread
        return self.threads[-1] if self.threads else None

    @property
    def who(self) -> str:
        """How people call it: its rank, else its process."""
        if self.rank is not None:
            return f"rank {self.rank}"
        return "a process without a number" if self.pid is None else f"process {self.pid}"


@lru_cache(maxsize=4096)
def short_path(path: str) -> str:
    """The path below site-packages or the library folder, else its last two parts."""
    parts = PurePosixPath(path).parts
    for marker in ("site-packages", "dist-packages"):
        if marker in parts[:-1]:
            return "/".join(parts[parts.index(marker) + 1 :])
    for index, part in enumerate(parts[:-1]):
        if part.startswith("python3.") and index > 0:
            return "/".join(parts[index + 1 :])
    return parts[-1] if path.startswith("/") else path


def user_frame(frames: tuple[Frame, ...]) -> Frame | None:
    """The innermost frame that is neither native, nor Python's library, nor torch; None when there is none."""
    for frame in frames:
        if not frame.is_library:
            return frame
    return None
