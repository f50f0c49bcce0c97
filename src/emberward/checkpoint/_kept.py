"""Which saves stay: the last ones, every n-th, and those that bear a name."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from emberward.checkpoint._names import NAMES, NAMES_TEMPORARY
from emberward.checkpoint._plain_file import read_plain
from emberward.checkpoint._storage import DISK, Storage, write_new

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
MAX_NAMES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """The `last` so many saves stay (None: all), and for ever those whose step is a multiple of `every`.

    A save that bears a name stays whatever this says.
    """

    last: int | None = None
    every: int | None = None

    def __post_init__(self) -> None:
        if (self.last is not None and self.last < 1) or (self.every is not None and self.every < 1):
            raise ValueError(f"keeping the last {self.last} saves and each {self.every}th step's")


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A whole save as far as keeping it is concerned. `is_pointed`: a resume would take it."""

    path: Path
    step: int
    names: tuple[str, ...]
    is_pointed: bool


def outdated(saves: Sequence[Candidate], keep: Keep) -> list[Candidate]:
    """Those of `saves`, given in the order they were made, that nothing keeps; pure.

    Saves that stay for ever do not count among the last ones, so that a run always has its newest `last` beside them.
    """
    if keep.last is None:
        return []
    passing = [
        save for save in saves if not save.names and (keep.every is None or save.step == 0 or save.step % keep.every)
    ]
    return [save for save in passing[: -keep.last] if not save.is_pointed]


def names_of(checkpoint: Path) -> tuple[str, ...]:
    """The names that the save bears, sorted; empty when it bears none. A line that is no name is passed over."""
    try:
        lines = read_plain(checkpoint / NAMES).decode("ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return ()
    return tuple(sorted({line for line in lines if _NAME.fullmatch(line)}))


def keeping_names(checkpoint: Path) -> tuple[str, ...]:
    """What keeps the save: its names, or a word for them where they cannot be read, as it may have been given one."""
    names = names_of(checkpoint)
    try:
        is_damaged = not names and (checkpoint / NAMES).stat().st_size > 0
    except (FileNotFoundError, NotADirectoryError):
        return names
    except OSError:
        is_damaged = True
    return ("names that cannot be read",) if is_damaged else names


def name_save(checkpoint: Path, name: str, *, storage: Storage = DISK) -> None:
    """Gives the save a name, such as ``before-spike-31216``: it is kept until the name is taken away. One rank calls.

    Raises ValueError for a name that is not lower-case letters, digits, ``.``, ``_`` and ``-``, or the 17th; OSError.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} names no save: lower-case letters, digits, '.', '_' and '-', at most 64")
    names = {*names_of(checkpoint), name}
    if len(names) > MAX_NAMES:
        raise ValueError(f"{checkpoint} bears {MAX_NAMES} names already")
    _write_names(checkpoint, names, storage)


def unname_save(checkpoint: Path, name: str, *, storage: Storage = DISK) -> None:
    """Takes a name from the save; the next save's keeping may then remove it. Raises OSError."""
    _write_names(checkpoint, set(names_of(checkpoint)) - {name}, storage)


def _write_names(checkpoint: Path, names: set[str], storage: Storage) -> None:
    temporary = checkpoint / NAMES_TEMPORARY
    if temporary.exists():
        storage.remove(temporary)
    write_new(storage, temporary, "".join(f"{name}\n" for name in sorted(names)).encode("ascii"))
    storage.rename(temporary, checkpoint / NAMES)
    storage.fsync_folder(checkpoint)
