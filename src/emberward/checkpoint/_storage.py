"""The few operations by which a save changes the disk, small enough that a test can fail each of them in turn."""

import contextlib
import errno
import fcntl
import mmap
import os
from io import FileIO
from pathlib import Path
from typing import Protocol

from emberward.checkpoint._names import is_rank_file
from emberward.files import anew

ALIGN_BYTES = 4096
"""What O_DIRECT asks of addresses, lengths and offsets at most (open(2), NOTES: the logical block size)."""
DIRECT_BYTES = 4 << 20
"""Bytes of one write past the page cache."""
O_DIRECT = getattr(os, "O_DIRECT", None)


class WritableFile(Protocol):
    """A new file that is being written."""

    def write(self, data: memoryview) -> int:
        """The number of bytes taken, which may be fewer than offered. Blocks."""
        ...

    def fsync(self) -> None:
        """Returns when the bytes written are on the disk. Blocks."""
        ...

    def close(self) -> None:
        """Closes without fsync."""
        ...


class Hold(Protocol):
    """A lock that is held until it is closed or the process ends, however it ends."""

    def close(self) -> None:
        """Gives the lock up."""
        ...


class Storage(Protocol):
    """All that a save does to a file system. Each method raises OSError as the system does."""

    def mkdir(self, path: Path) -> None:
        """Makes one folder; FileExistsError when it is there."""
        ...

    def create(self, path: Path) -> WritableFile:
        """Makes a new file; FileExistsError when it is there."""
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Renames in one indivisible act; a file in the target's place is replaced, a folder in use is not."""
        ...

    def remove(self, path: Path) -> None:
        """Removes a file."""
        ...

    def rmdir(self, path: Path) -> None:
        """Removes an empty folder."""
        ...

    def fsync_folder(self, path: Path) -> None:
        """Returns when the folder's list of names is on the disk. Blocks."""
        ...

    def listdir(self, path: Path) -> list[str]:
        """Names in a folder, sorted; empty when the folder does not exist."""
        ...

    def hold(self, path: Path) -> Hold:
        """A shared lock on the file, made when missing. Never waits: those who share it do not exclude each other."""
        ...

    def is_held(self, path: Path) -> bool | None:
        """Whether anyone holds the lock; None where the file system cannot tell."""
        ...


class _DiskFile:
    """Names itself in its errors, as the system does not for calls on an open file."""

    def __init__(self, file: FileIO, path: Path) -> None:
        self._file = file
        self._path = path

    def write(self, data: memoryview) -> int:
        try:
            return self._file.write(data)
        except OSError as error:
            error.filename = str(self._path)
            raise

    def fsync(self) -> None:
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            error.filename = str(self._path)
            raise

    def close(self) -> None:
        self._file.close()


class _DirectFile(_DiskFile):
    """Writes past the page cache, through one aligned buffer; what is left in it comes to the disk by `fsync` alone.

    [Note: past the page cache]
    A page cache costs a copy, pages to find and a kernel thread that flushes them, all of them the training's time
    where no processor is idle, and it drives out pages that the training reads. Where the file system refuses, and for
    the last bytes, which fill no block, the file goes on through the cache.
    """

    def __init__(self, file: FileIO, path: Path) -> None:
        super().__init__(file, path)
        self._buffer = memoryview(mmap.mmap(-1, DIRECT_BYTES))
        self._filled = 0
        self._is_direct = True

    def write(self, data: memoryview) -> int:
        taken = min(len(data), DIRECT_BYTES - self._filled)
        self._buffer[self._filled : self._filled + taken] = data[:taken]
        self._filled += taken
        if self._filled == DIRECT_BYTES:
            self._put_out()
        return taken

    def fsync(self) -> None:
        self._put_out()
        super().fsync()

    def _put_out(self) -> None:
        rest, self._filled = self._buffer[: self._filled], 0
        while len(rest) > 0:
            whole = len(rest) - len(rest) % ALIGN_BYTES
            if whole == 0:
                self._leave_direct()
            try:
                taken = super().write(rest[:whole] if self._is_direct else rest)
            except OSError as error:
                if error.errno != errno.EINVAL or not self._is_direct:
                    raise
                self._leave_direct()
                continue
            if taken <= 0:
                raise OSError(errno.EIO, "the file system took no byte of a write", str(self._path))
            if taken % ALIGN_BYTES:
                self._leave_direct()
            rest = rest[taken:]

    def _leave_direct(self) -> None:
        if self._is_direct:
            assert O_DIRECT is not None
            flags = fcntl.fcntl(self._file.fileno(), fcntl.F_GETFL)
            fcntl.fcntl(self._file.fileno(), fcntl.F_SETFL, flags & ~O_DIRECT)
            self._is_direct = False


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Disk:
    """The machine's file system, by POSIX calls. Locks are flock's: they end with the process, also by SIGKILL.

    With `is_direct` the ranks' data goes past the page cache where the file system can: see `_DirectFile`.
    """

    def __init__(self, *, is_direct: bool = False) -> None:
        self._is_direct = is_direct and O_DIRECT is not None

    def mkdir(self, path: Path) -> None:
        """Makes one folder."""
        path.mkdir()

    def create(self, path: Path) -> WritableFile:
        """Makes a new file, unbuffered, so that each write is one system call."""
        if self._is_direct and is_rank_file(path.name):
            try:
                return _DirectFile(FileIO(path, "x", opener=_open_direct), path)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                path.unlink(missing_ok=True)  # Linux makes the file before it refuses (open(2), NOTES, O_DIRECT)
        return _DiskFile(FileIO(path, "x"), path)

    def rename(self, source: Path, target: Path) -> None:
        """rename(2)."""
        source.replace(target)

    def remove(self, path: Path) -> None:
        """unlink(2)."""
        path.unlink()

    def rmdir(self, path: Path) -> None:
        """rmdir(2)."""
        path.rmdir()

    def fsync_folder(self, path: Path) -> None:
        """fsync(2) of the folder: without it a new name may be lost with the power (fsync(2), NOTES)."""
        anew(lambda: _sync_folder(path))

    def listdir(self, path: Path) -> list[str]:
        """Names, sorted."""
        return sorted(entry.name for entry in path.iterdir()) if path.is_dir() else []

    def hold(self, path: Path) -> Hold:
        """A shared flock. Where flock is not supported the file is held open without a lock."""
        file = path.open("ab")
        with contextlib.suppress(
            OSError
        ):  # is_held answers None there, so that a live writer's folder is never cleaned
            fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
        return file

    def is_held(self, path: Path) -> bool | None:
        """Tries an exclusive flock and gives it up at once."""
        if not path.exists():
            return False
        with path.open("ab") as file:
            try:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            except OSError:
                return None
        return False


def _open_direct(path: str, flags: int) -> int:
    assert O_DIRECT is not None
    return os.open(path, flags | O_DIRECT, 0o666)


DISK = Disk()


def write_all(file: WritableFile, data: memoryview | bytes) -> None:
    """Writes every byte, however few each call takes. Raises OSError when a call takes none."""
    rest = memoryview(data)
    while len(rest) > 0:
        taken = file.write(rest)
        if taken <= 0:
            raise OSError("the file system took no byte of a write")
        rest = rest[taken:]


def write_new(storage: Storage, path: Path, data: bytes) -> None:
    """Writes a new small file and returns when its bytes, though not its name, are on the disk."""
    file = storage.create(path)
    try:
        write_all(file, data)
        file.fsync()
    finally:
        file.close()


def remove_folder(storage: Storage, path: Path) -> None:
    """Removes a folder of files, one level deep, as all of ours are."""
    for name in storage.listdir(path):
        storage.remove(path / name)
    storage.rmdir(path)
