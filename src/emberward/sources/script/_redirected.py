"""Python's functions on files, with a layer between them and the disk: [Note: the file layer]. No torch."""

import builtins
import errno
import io
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from emberward.sources.script._file_layer import FileLayer, is_there, real, real_open

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class _Entry:
    """What ``os.scandir`` yields (os.DirEntry cannot be made)."""

    def __init__(self, layer: FileLayer, folder: Any, name: str) -> None:
        self._place = os.path.join(os.fsdecode(folder), name)  # noqa: PTH118
        self._layer = layer
        is_bytes = isinstance(folder, bytes)
        self.name: Any = os.fsencode(name) if is_bytes else name
        self.path: Any = os.fsencode(self._place) if is_bytes else self._place

    def __fspath__(self) -> Any:
        return self.path

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """As os.DirEntry.stat."""
        return os.stat(self._place, follow_symlinks=follow_symlinks)  # noqa: PTH116 (through the layer)

    def inode(self) -> int:
        """As os.DirEntry.inode."""
        return self.stat(follow_symlinks=False).st_ino

    def is_symlink(self) -> bool:
        """As os.DirEntry.is_symlink."""
        return stat.S_ISLNK(self.stat(follow_symlinks=False).st_mode)

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """As os.DirEntry.is_dir."""
        return self._is(stat.S_ISDIR, follow_symlinks)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """As os.DirEntry.is_file."""
        return self._is(stat.S_ISREG, follow_symlinks)

    def _is(self, kind: Callable[[int], bool], follow_symlinks: bool) -> bool:
        try:
            return kind(self.stat(follow_symlinks=follow_symlinks).st_mode)
        except FileNotFoundError:
            return False


class _Entries:
    """The iterator of ``os.scandir``, which is a context manager too."""

    def __init__(self, entries: list[_Entry]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> "_Entries":
        return self

    def __next__(self) -> _Entry:
        return next(self._entries)

    def __enter__(self) -> "_Entries":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the iteration."""
        self._entries = iter(())


class Redirected:
    """Python's functions on files, with `layer` between them and the disk. ``install`` replaces this process's own."""

    def __init__(self, layer: FileLayer) -> None:
        self.layer = layer

    def install(self) -> None:
        """Replaces the functions for the rest of this process."""
        layer = self.layer
        builtins.open = io.open = self._open
        replaced: dict[str, Callable[..., Any]] = {
            "open": self._os_open,
            "listdir": self._listdir,
            "scandir": self._scandir,
            "rename": self._rename,
            "replace": self._rename,
            "unlink": self._changing(layer.remove, real.unlink),
            "remove": self._changing(layer.remove, real.unlink),
            "rmdir": self._changing(layer.remove_folder, real.rmdir),
            "mkdir": self._mkdir,
            "link": self._link,
            "symlink": self._symlink,
            "chdir": self._chdir,
            "getcwd": lambda: layer.current,
            "getcwdb": lambda: os.fsencode(layer.current),
            "lstat": self._reading(real.lstat, follow=False),
            "readlink": self._reading(real.readlink, follow=False),
            "access": self._access,
        }
        for name in ("stat", "statvfs", "listxattr", "getxattr"):
            replaced |= {name: self._reading(getattr(real, name))} if hasattr(real, name) else {}
        for name in ("truncate", "chmod", "chown", "utime", "setxattr", "removexattr"):
            replaced |= {name: self._writing(getattr(real, name))} if hasattr(real, name) else {}
        abilities = (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids)
        for name, function in replaced.items():
            original = getattr(os, name)
            for ability in abilities:
                if original in ability:
                    ability.add(function)
            setattr(os, name, function)
        shutil._use_fd_functions = False  # type: ignore[attr-defined]  # rmtree by paths

    @staticmethod
    @contextmanager
    def _named(path: Any, other: Any = None) -> Iterator[None]:
        """Lets errors name the paths that the script asked for."""
        try:
            yield
        except OSError as error:
            error.filename = os.fspath(path)
            if other is not None:
                error.filename2 = os.fspath(other)
            raise

    def _open(self, file: Any, mode: str = "r", *args: Any, **named: Any) -> Any:
        if not isinstance(file, int):
            with self._named(file):
                is_written = bool(set(mode) & set("wax+"))
                if is_written:
                    file = self.layer.to_write(file, follow="x" not in mode, is_emptied="w" in mode)
                else:
                    file = self.layer.to_read(file)
                return real_open(file, mode, *args, **named)
        return real_open(file, mode, *args, **named)

    def _os_open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        with self._named(path):
            if dir_fd is None:
                follow = not flags & (os.O_NOFOLLOW | os.O_EXCL)
                shown = self.layer.to_read(path, follow=follow)
                is_written = bool(flags & _WRITING) and bool(is_there(shown) or flags & os.O_CREAT)
                path = self.layer.to_write(path, follow=follow) if is_written else shown
            return int(real.open(path, flags, mode, dir_fd=dir_fd))

    def _reading(self, original: Callable[..., Any], *, follow: bool = True) -> Callable[..., Any]:
        def read(path: Any, *args: Any, **named: Any) -> Any:
            if isinstance(path, int) or named.get("dir_fd") is not None:
                return original(path, *args, **named)
            with self._named(path):
                shown = self.layer.to_read(path, follow=follow and named.get("follow_symlinks", True))
                return original(shown, *args, **named)

        return read

    def _access(self, path: Any, mode: int, **named: Any) -> bool:
        try:
            return bool(self._reading(real.access)(path, mode, **named))
        except OSError:
            return False

    def _writing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def change(path: Any, *args: Any, **named: Any) -> Any:
            if isinstance(path, int) or named.get("dir_fd") is not None:
                return original(path, *args, **named)
            with self._named(path):
                shown = self.layer.to_read(path, follow=named.get("follow_symlinks", True))
                if not is_there(shown):
                    return original(shown, *args, **named)
                return original(self.layer.to_write(path, follow=named.get("follow_symlinks", True)), *args, **named)

        return change

    def _changing(self, change: Callable[[Any], None], original: Callable[..., Any]) -> Callable[..., Any]:
        def changed(path: Any, *, dir_fd: int | None = None) -> None:
            if dir_fd is not None:
                original(path, dir_fd=dir_fd)
                return
            with self._named(path):
                change(path)

        return changed

    def _mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        if dir_fd is not None:
            real.mkdir(path, mode, dir_fd=dir_fd)
            return
        with self._named(path):
            self.layer.make_folder(path, mode)

    def _rename(self, src: Any, dst: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
        if src_dir_fd is not None or dst_dir_fd is not None:
            real.rename(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
            return
        with self._named(src, dst):
            self.layer.rename(src, dst)

    def _link(self, src: Any, dst: Any, **named: Any) -> None:
        with self._named(src, dst):
            real.lstat(self.layer.to_read(src, follow=False))
            new = self._new(dst)
            real.link(self.layer.to_write(src, follow=False), new, **named)

    def _symlink(self, src: Any, dst: Any, target_is_directory: bool = False, *, dir_fd: int | None = None) -> None:
        with self._named(src, dst):
            real.symlink(src, dst if dir_fd is not None else self._new(dst), target_is_directory, dir_fd=dir_fd)

    def _new(self, path: Any) -> str:
        """Where a new entry goes, which must not be there."""
        place = self.layer.path_of(path, follow=False)
        if is_there(self.layer.where(place)):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), place)
        return self.layer.to_write(place, follow=False)

    def _chdir(self, path: Any) -> None:
        with self._named(path):
            if isinstance(path, int):
                raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP), path)
            self.layer.enter(path)

    def _listdir(self, path: Any = ".") -> list[Any]:
        if isinstance(path, int):
            return list(real.listdir(path))
        with self._named("." if path is None else path):
            found = self.layer.names("." if path is None else path)
        return [os.fsencode(name) for name in found] if isinstance(path, bytes) else found

    def _scandir(self, path: Any = ".") -> Any:
        if isinstance(path, int):
            return real.scandir(path)
        folder = "." if path is None else os.fspath(path)
        with self._named(folder):
            return _Entries([_Entry(self.layer, folder, name) for name in self.layer.names(folder)])
