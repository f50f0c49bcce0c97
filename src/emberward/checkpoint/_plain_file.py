"""Opens files that must be regular ones: a pipe or a device in a file's place is refused, and never waited for."""

import errno
import os
import stat
from io import FileIO
from pathlib import Path

from emberward.files import anew


def open_plain(path: Path) -> FileIO:
    """The file, opened unbuffered. Never blocks on a pipe. Raises OSError for what is no regular file."""
    return anew(lambda: FileIO(path, opener=_open))


def read_plain(path: Path) -> bytes:
    """The bytes of the file. Raises OSError for what is no regular file."""

    def read() -> bytes:
        with FileIO(path, opener=_open) as file:
            return file.readall()

    return anew(read)


def _open(path: str, flags: int) -> int:
    # open(2): O_NONBLOCK opens a FIFO at once, and does nothing to a regular file.
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return descriptor
