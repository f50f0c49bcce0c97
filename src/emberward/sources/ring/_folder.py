"""Where the rings of a job lie.

[Note: the ring folder]
``/dev/shm/emberward-UID/JOB/rank00003-PID.ring``: a tmpfs that outlives a process and no host. Without /dev/shm the
folder for temporary files stands in: a disk that stalls can then block a page's first write. Folders are the user's
alone (mode 0700); one that belongs to somebody else is not used.
"""

import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")
SUFFIX = ".ring"
MAX_RINGS = 65_536
"""Files of one folder that are listed."""


MAX_PROBLEMS = 20
"""Problems of one process that are read."""


def ring_folder_name(job: str) -> str:
    """A folder's name for the job called `job`: its letters and digits, and a few random ones against collisions."""
    kept = re.sub(r"[^A-Za-z0-9._-]+", "-", job).strip("-.")[:80]
    return f"{kept or 'job'}-{secrets.token_hex(4)}"


def new_ring_folder(
    job: str, *, base: Path | None = None, before: Callable[[Path], None] = lambda folder: None
) -> Path:
    """Makes and returns the folder for a job's rings, below `base` or shared memory. Raises OSError when it cannot.

    `before` is called with its path before it is made.
    """
    above = _own_folder() if base is None else base
    folder = above / ring_folder_name(job)
    before(folder)
    folder.mkdir(mode=0o700, parents=True)
    return folder


def shared_ring_folder(name: str) -> Path:
    """The folder called `name`, made unless it is there: processes that agree on the name find one. Raises OSError."""
    folder = _own_folder() / name
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def remove_ring_folder(folder: Path) -> None:
    """Removes the folder and what is in it; does nothing when it is gone."""
    shutil.rmtree(folder, ignore_errors=True)


def ring_name(*, rank: int | None, pid: int) -> str:
    """The name of a process's ring inside its folder; `rank` None when the process does not know its own yet."""
    return f"unranked-{pid}{SUFFIX}" if rank is None else f"rank{rank:05d}-{pid}{SUFFIX}"


def crash_file(ring: Path) -> Path:
    """Where Python writes the stacks of the ring's process when that crashes (SIGSEGV, SIGABRT and the like)."""
    return ring.with_suffix(".crash")


def find_rings(folder: Path) -> tuple[Path, ...]:
    """The rings in `folder` by name; empty when the folder does not exist."""
    try:
        found = sorted(path for path in folder.iterdir() if path.suffix == SUFFIX)
    except OSError:
        return ()
    return tuple(found[:MAX_RINGS])


def read_problems(folder: Path) -> tuple[str, ...]:
    """What processes that got no ring said into ``problems-PID.txt`` of the folder, a line each."""
    lines: list[str] = []
    try:
        for path in sorted(folder.glob("problems-*.txt"))[:MAX_RINGS]:
            lines += path.read_text(encoding="utf-8", errors="replace").splitlines()[:MAX_PROBLEMS]
    except OSError:
        return tuple(lines)
    return tuple(lines)


def _own_folder() -> Path:
    above = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())
    folder = above / f"emberward-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if folder.is_symlink() or found.st_uid != os.getuid():
        return Path(tempfile.mkdtemp(prefix="emberward-"))
    return folder
