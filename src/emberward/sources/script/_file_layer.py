"""Holds what an examined script writes where the kernel gives no view of the machine of its own. No torch.

[Note: the file layer]
``upper`` holds each path that was written, ``gone`` a mark for each path of the disk that is not to be seen any more. A
path exists when `upper` has it, or when the disk has it and neither it nor a folder above it is gone. What is changed
is copied into `upper` first. The processes of an examination share both folders. Python's own functions are replaced
(`_redirected.py`), so paths that Python code opens, lists, renames and removes are redirected, and error messages name
the path that was asked for. Code that opens files without Python is not redirected: the guard refuses what Python
reports of it. Folders as descriptors (`dir_fd`) go to the disk, where the guard refuses changes.
"""

import builtins
import errno
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

_MARK = ".gone"
_MAX_LINKS = 40
"""Of Linux, path_resolution(7)."""
_NOT_LAYERED = ("/proc", "/sys", "/dev")
# Python's own functions, as they were before any was replaced.
real = SimpleNamespace(
    **{
        name: getattr(os, name)
        for name in (
            *("open", "stat", "lstat", "access", "listdir", "scandir", "readlink", "statvfs", "getcwd", "chdir"),
            *("mkdir", "rmdir", "unlink", "rename", "link", "symlink", "truncate", "chmod", "chown", "utime"),
            *("listxattr", "getxattr", "setxattr", "removexattr"),
        )
        if hasattr(os, name)
    }
)
real_open = builtins.open


def _above(place: str) -> str:
    """The folder of a path without links; empty for the top."""
    return place.rpartition("/")[0]


def is_there(path: str) -> bool:
    """Whether the disk has the path, a link that leads nowhere included."""
    try:
        real.lstat(path)
    except OSError:
        return False
    return True


def _is_link(path: str) -> bool:
    return is_there(path) and stat.S_ISLNK(real.lstat(path).st_mode)


def _is_folder(path: str) -> bool:
    """Whether a folder is there; a link to one is none."""
    return is_there(path) and stat.S_ISDIR(real.lstat(path).st_mode)


class FileLayer:
    """The files as an examined script sees them. `folder` holds the layer; below `kept` everything is on the disk."""

    def __init__(self, folder: Path, *, kept: Path) -> None:
        self.upper = os.path.realpath(folder / "upper")
        self.gone = os.path.realpath(folder / "gone")
        self._kept = (*_NOT_LAYERED, os.path.realpath(kept))
        self.current = real.getcwd()
        for path in (self.upper, self.gone):
            Path(path).mkdir(parents=True, exist_ok=True)

    # -- where a path lies ---------------------------------------------------------------------------------------------

    def path_of(self, path: Any, *, follow: bool = True) -> str:
        """The absolute path without links, as the script sees it; with `follow` False a link at its end stays."""
        left = os.path.join(self.current, os.fsdecode(path)).split("/")[::-1]  # noqa: PTH118 (texts throughout)
        done, num_links = "", 0
        while left:
            part = left.pop()
            if part in ("", "."):
                continue
            if part == "..":
                done = _above(done)
                continue
            place = f"{done}/{part}"
            target = self._link(place) if left or follow else None
            if target is None:
                done = place
                if any(left) and not _is_folder(self.where(place)):
                    number = errno.ENOTDIR if is_there(self.where(place)) else errno.ENOENT
                    raise OSError(number, os.strerror(number), os.fsdecode(path))
                continue
            num_links += 1
            if num_links > _MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fsdecode(path))
            done = "" if target.startswith("/") else done
            left += target.split("/")[::-1]
        return done or "/"

    def is_kept(self, place: str) -> bool:
        """Whether the path is on the disk for the script, too."""
        return any(place == folder or place.startswith(f"{folder}/") for folder in self._kept)

    def where(self, place: str) -> str:
        """The file on the disk that stands for a path without links; one that is not there when the path is not."""
        if self.is_kept(place):
            return place
        written = self.upper + place
        return written if is_there(written) or self._is_gone(place) else place

    def to_read(self, path: Any, *, follow: bool = True) -> str:
        """The file on the disk that `path` shows."""
        return self.where(self.path_of(path, follow=follow))

    def to_write(self, path: Any, *, follow: bool = True, is_emptied: bool = False) -> str:
        """The file of the layer that a change of `path` goes to, a copy of what is there; its folders are made.

        Raises OSError when there is no such folder, or when what is on the disk may not be written.
        """
        place = self.path_of(path, follow=follow)
        written = self.upper + place
        if self.is_kept(place):
            return place
        if is_there(written):
            return written
        shown = self.where(place)
        if is_there(shown):
            self._require(_is_link(shown) or real.access(shown, os.W_OK), errno.EACCES, place)
            self._copy_up(place, is_emptied=is_emptied)
        else:
            folder = self.where(_above(place) or "/")
            self._require(_is_folder(folder), errno.ENOENT, place)
            self._require(real.access(folder, os.W_OK | os.X_OK), errno.EACCES, place)
            self._make_folders(_above(place))
        return written

    def names(self, path: Any) -> list[str]:
        """What the folder holds."""
        place = self.path_of(path)
        if self.is_kept(place):
            return list(real.listdir(place))
        shown = self.where(place)
        found = dict.fromkeys(real.listdir(shown))
        if shown != place and _is_folder(place) and not self._is_gone(place):
            found |= dict.fromkeys(real.listdir(place))
        return [name for name in found if is_there(self.where(f"{place.rstrip('/')}/{name}"))]

    # -- changes -------------------------------------------------------------------------------------------------------

    def remove(self, path: Any) -> None:
        """As unlink(2)."""
        place = self.path_of(path, follow=False)
        shown = self.where(place)
        is_folder = _is_folder(shown)
        self._require(not is_folder, errno.EISDIR, place)
        self._require(is_there(shown), errno.ENOENT, place)
        self._forget(place, real.unlink)

    def remove_folder(self, path: Any) -> None:
        """As rmdir(2)."""
        place = self.path_of(path, follow=False)
        self._require(not self._is_file(place), errno.ENOTDIR, place)
        self._require(not self.names(place), errno.ENOTEMPTY, place)
        self._forget(place, real.rmdir)

    def make_folder(self, path: Any, mode: int) -> None:
        """As mkdir(2)."""
        place = self.path_of(path, follow=False)
        self._require(not is_there(self.where(place)), errno.EEXIST, place)
        real.mkdir(self.to_write(place), mode)

    def rename(self, source: Any, target: Any) -> None:
        """As rename(2)."""
        old, new = self.path_of(source, follow=False), self.path_of(target, follow=False)
        shown, there = self.where(old), self.where(new)
        self._require(is_there(shown), errno.ENOENT, old)
        if old == new:
            return
        is_folder = _is_folder(shown)
        self._require(not new.startswith(f"{old}/"), errno.EINVAL, new)
        self._require(not old.startswith(f"{new}/"), errno.ENOTEMPTY, new)
        if _is_folder(there):
            self._require(is_folder, errno.EISDIR, new)
            self.remove_folder(new)
        elif is_folder:
            self._require(not is_there(there), errno.ENOTDIR, new)
        self._move(old, new, is_folder=is_folder)

    def enter(self, path: Any) -> None:
        """As chdir(2), for this process."""
        place = self.path_of(path)
        real.chdir(self.where(place))
        self.current = place

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _move(self, old: str, new: str, *, is_folder: bool) -> None:
        if is_folder:
            self.make_folder(new, stat.S_IMODE(real.stat(self.where(old)).st_mode))
            for name in self.names(old):
                shown = self.where(f"{old}/{name}")
                is_inner = _is_folder(shown)
                self._move(f"{old}/{name}", f"{new}/{name}", is_folder=is_inner)
            self._forget(old, real.rmdir)
            return
        written = self.to_write(old, follow=False)
        place = new if self.is_kept(new) else self.upper + new
        if not self.is_kept(new):
            self._require(_is_folder(self.where(_above(new) or "/")), errno.ENOENT, new)
            self._make_folders(_above(new))
        try:
            real.rename(written, place)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            shutil.copy2(written, place, follow_symlinks=False)
            real.unlink(written)
        if not self.is_kept(old):
            self._mark(old)

    def _forget(self, place: str, remove: Callable[[str], None]) -> None:
        written = place if self.is_kept(place) else self.upper + place
        is_on_disk = not self.is_kept(place) and is_there(place) and not self._is_gone(place)
        if is_there(written) or not is_on_disk:
            remove(written)
        if is_on_disk:
            self._require(real.access(_above(place) or "/", os.W_OK | os.X_OK), errno.EACCES, place)
            self._mark(place)

    def _copy_up(self, place: str, *, is_emptied: bool) -> None:
        self._make_folders(_above(place))
        written = self.upper + place
        if _is_folder(place):
            self._make_folders(place)
            return
        temporary = f"{self.gone}/{os.getpid()}.copy"
        if is_emptied:
            with real_open(temporary, "wb"):
                shutil.copymode(place, temporary)
        else:
            shutil.copy2(place, temporary, follow_symlinks=False)
        try:
            real.link(temporary, written, follow_symlinks=False)  # the first of several processes keeps its copy
        except FileExistsError:
            pass
        finally:
            real.unlink(temporary)

    def _make_folders(self, place: str) -> None:
        if place in ("", "/") or _is_folder(self.upper + place):
            return
        self._make_folders(_above(place))
        try:
            real.mkdir(self.upper + place, stat.S_IMODE(real.stat(place).st_mode) | stat.S_IRWXU)
        except FileExistsError:
            return

    def _link(self, place: str) -> str | None:
        try:
            return os.fsdecode(real.readlink(self.where(place)))
        except OSError:
            return None

    def _is_file(self, place: str) -> bool:
        shown = self.where(place)
        return is_there(shown) and not _is_folder(shown)

    def _mark(self, place: str) -> None:
        if is_there(place):
            folder = Path(self.gone + place)
            _make_all(str(folder))
            with real_open(f"{folder}/{_MARK}", "wb"):
                pass

    def _is_marked(self, place: str) -> bool:
        return is_there(f"{self.gone}{place}/{_MARK}")

    def _is_gone(self, place: str) -> bool:
        while place not in ("", "/"):
            if self._is_marked(place):
                return True
            place = _above(place)
        return False

    @staticmethod
    def _require(is_so: bool, number: int, place: str) -> None:
        if not is_so:
            raise OSError(number, os.strerror(number), place)


def _make_all(folder: str) -> None:
    if is_there(folder):
        return
    _make_all(_above(folder))
    try:
        real.mkdir(folder)
    except FileExistsError:
        return
