"""Which files lie below a path, and their bytes: bounded in number, size and time, whatever the path is.

Archives are unpacked into a folder that the caller removes. A long text is sieved: of a log of a gigabyte only the
lines that can matter are kept, with their numbers.
"""

import bz2
import gzip
import lzma
import os
import re
import select
import stat
import tarfile
import zipfile
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol

MAX_FILES = 40_000
"""Most files that are looked at below one path."""
MAX_WHOLE_BYTES = 256 << 20
"""Largest dump, and largest other file that is no text, that is read."""
MAX_PLAIN_TEXT_BYTES = 2 << 20
"""Largest text that is read as it is; of a larger one the lines that matter are kept."""
MAX_SIEVED_BYTES = 32 << 20
"""Most text that is kept of a long one: the first half of it, and the last."""
MAX_LINE_BYTES = 1 << 16
MAX_UNPACKED_BYTES = 2 << 30
"""Most bytes that are unpacked of one archive."""
MAX_FOUND_ARCHIVE_BYTES = 256 << 20
"""Largest archive that is opened when nobody named it."""
MAX_PIPE_S = 30.0
"""Longest wait for the next bytes of a pipe."""

# fmt: off
SKIPPED_SUFFIXES = frozenset(
    {
        ".py", ".pyc", ".pt", ".pth", ".safetensors", ".distcp", ".bin", ".idx", ".npy", ".npz", ".so", ".html",
        ".png", ".jpg", ".md", ".yaml", ".yml", ".toml", ".whl", ".egg", ".jar",
    }
)
# fmt: on
_SKIPPED_FOLDERS = frozenset({"checkpoints", "__pycache__", ".git", "node_modules"})
_RUN_FILES = frozenset({"metrics.jsonl", "attempts.jsonl", "certificate.json"})
_ATTEMPT = re.compile(r"^attempt[_-](\d{1,6})$")
_ARCHIVES = {b"\x1f\x8b": "gz", b"PK\x03\x04": "zip", b"BZh": "bz2", b"\xfd7zXZ\x00": "xz"}
# Plain words, since a search for one of many patterns is twenty times slower than all of these.
_WORDS = (
    b"Error", b"Exception", b"Traceback", b'File "', b"SeqNum=", b"last enqueued", b"collective #", b"lagging",
    b"Signal ", b"exitcode", b"local_rank", b"atchdog", b"Heartbeat", b"NET/IB", b"Fatal", b"Thread ", b"Process ",
    b".py:", b"No space left", b"out of memory", b"Segmentation", b"most recent call", b"Killed", b"Aborted",
)  # fmt: skip


class Readable(Protocol):
    """What gives bytes: a file, a member of an archive, a pipe."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; none at the end."""
        ...


class UnreadableError(ValueError):
    """A path whose bytes are not read, with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A file's bytes. `numbers`: of a sieved text, which lines of the file the lines are, from 1."""

    data: bytes
    mtime_ns: int
    numbers: tuple[int, ...] | None = None


def files_below(path: Path, problems: list[tuple[Path, str]]) -> Iterator[Path]:
    """The files below a folder in order of name; hidden ones and state that holds no evidence are passed over.

    Folders behind links are not entered. A folder that cannot be listed is appended to `problems`. Of the attempts that
    torchrun or a supervisor keeps side by side the newest alone is given.
    """
    folders = [path]
    while folders:
        folder = folders.pop()
        try:
            inside = sorted(folder.iterdir())
        except OSError as error:
            problems.append((folder, error.strerror or str(error)))
            continue
        attempts = [int(found.group(1)) for item in inside if (found := _ATTEMPT.match(item.name)) is not None]
        for item in inside:
            found = _ATTEMPT.match(item.name)
            if item.name.startswith(".") or (found is not None and int(found.group(1)) < max(attempts)):
                continue
            if item.is_dir() and not item.is_symlink():
                if item.name not in _SKIPPED_FOLDERS:
                    folders.append(item)
            elif item.is_file() and item.suffix.lower() not in SKIPPED_SUFFIXES and item.name not in _RUN_FILES:
                yield item


def archive_kind(path: Path) -> str | None:
    """``gz``, ``bz2``, ``xz``, ``zip`` or ``tar`` by the file's first bytes; None for what is no archive."""
    try:
        if not stat.S_ISREG(path.stat().st_mode) or path.suffix.lower() in SKIPPED_SUFFIXES:
            return None
        with path.open("rb") as file:
            head = file.read(265)
    except OSError:
        return None
    if head[257:262] == b"ustar":
        return "tar"
    return next((kind for magic, kind in _ARCHIVES.items() if head.startswith(magic)), None)


def _inner_name(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix == ".tgz":
        return f"{path.stem}.tar"
    return path.stem if suffix in (".gz", ".bz2", ".xz") else path.name


def unpack(path: Path, kind: str, into: Path) -> None:
    """Writes the archive's plain files below the folder `into`; links and devices are left out.

    Raises UnreadableError when it is damaged or holds more than `MAX_UNPACKED_BYTES` or `MAX_FILES`.
    """
    room = [MAX_UNPACKED_BYTES]
    try:
        if kind == "zip":
            with zipfile.ZipFile(path) as archive:
                for number, item in enumerate(archive.infolist()):
                    _require_few(number)
                    if not item.is_dir():
                        with archive.open(item) as file:
                            _write(file, into, item.filename, room)
            return
        if kind == "tar":
            _unpack_tar(path, into, room)
            return
        _unpack_stream(path, kind, into, room)
    except (OSError, EOFError, ValueError, RuntimeError, zlib.error, lzma.LZMAError) as error:
        raise UnreadableError(f"{type(error).__name__}: {error}"[:300]) from error
    except (zipfile.BadZipFile, tarfile.TarError, ArithmeticError, LookupError) as error:
        raise UnreadableError(f"{type(error).__name__}: {error}"[:300]) from error


def _unpack_stream(path: Path, kind: str, into: Path, room: list[int]) -> None:
    """Unpacks a packed file, and the tar in it; of a cut one what is whole."""
    inner = into / _inner_name(path)
    cut: Exception | None = None
    with gzip.open(path) if kind == "gz" else bz2.open(path) if kind == "bz2" else lzma.open(path) as file:
        try:
            with inner.open("wb") as out:
                # `read1` gives what is whole of a cut file; `read` would not.
                while block := file.read1(1 << 16):
                    _take_room(room, len(block))
                    out.write(block)
        except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
            cut = error
    if inner.stat().st_size == 0:
        inner.unlink()
    if archive_kind(inner) == "tar":
        packed = inner.rename(into / f".packed-{inner.name}")
        try:
            _unpack_tar(packed, into, room)
        finally:
            packed.unlink()
    if cut is not None:
        raise UnreadableError(f"cut or damaged: {cut}")


def _require_few(number: int) -> None:
    if number >= MAX_FILES:
        raise UnreadableError(f"holds more than {MAX_FILES} files")


def _take_room(room: list[int], size: int) -> None:
    room[0] -= size
    if room[0] < 0:
        raise UnreadableError(f"holds more than {MAX_UNPACKED_BYTES >> 20} MB")


def _unpack_tar(path: Path, into: Path, room: list[int]) -> None:
    with tarfile.open(path, "r:") as archive:
        for number, item in enumerate(archive):
            _require_few(number)
            file = archive.extractfile(item) if item.isreg() else None
            if file is not None:
                with file:
                    _write(file, into, item.name, room)


def _write(file: Readable, into: Path, name: str, room: list[int]) -> None:
    """Copies a member, under its own name below `into`: no part of it leads out."""
    parts = [part[:120] for part in PurePosixPath(name.replace("\\", "/")).parts if part not in ("..", "/", ".", "")]
    if not parts or any("\x00" in part for part in parts):
        return
    target = into.joinpath(*parts[-12:])
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as out:
        while block := file.read(1 << 16):
            _take_room(room, len(block))
            out.write(block)


def keep_piped(pipe: Readable, into: Path) -> Path:
    """The file below `into` that holds what the pipe gave. Blocks until it is closed; of more than
    `MAX_UNPACKED_BYTES` the beginning is kept."""
    path = into / "standard input"
    left = MAX_UNPACKED_BYTES
    with path.open("wb") as out:
        while left > 0 and (block := pipe.read(min(left, 1 << 20))):
            out.write(block)
            left -= len(block)
    return path


def read_content(path: Path, *, since_byte: int = 0) -> Content:
    """The bytes of a file or pipe. Raises OSError, and UnreadableError for what is too large or no file.

    `since_byte`: where the part of a text begins that counts; its lines keep their numbers in the file.
    """
    about = path.stat()
    if stat.S_ISFIFO(about.st_mode):
        return Content(data=_read_pipe(path), mtime_ns=about.st_mtime_ns)
    if not stat.S_ISREG(about.st_mode):
        raise UnreadableError("is a device or a socket, no file")
    with path.open("rb") as file:
        if 0 < since_byte <= about.st_size:
            return _tail_of(file, since_byte, about.st_mtime_ns)
        head = file.read(64)
        is_text = b"\x00" not in head and (head.lstrip()[:1] not in (b"\x80", b"{", b"[") or _is_log_like(head))
        is_whole = about.st_size <= (MAX_PLAIN_TEXT_BYTES if is_text else MAX_WHOLE_BYTES)
        file.seek(0)
        if is_whole:
            return Content(data=file.read(MAX_WHOLE_BYTES), mtime_ns=about.st_mtime_ns)
        if not is_text:
            raise UnreadableError(f"has {about.st_size >> 20} MB, more than the {MAX_WHOLE_BYTES >> 20} that are read")
        data, numbers = sieve(file)
        return Content(data=data, mtime_ns=about.st_mtime_ns, numbers=numbers)


def _tail_of(file: BinaryIO, since_byte: int, mtime_ns: int) -> Content:
    """The lines of a text from a byte on, as far as they can matter where they are many."""
    num_before, left = 0, since_byte
    while left > 0 and (block := file.read(min(left, 1 << 20))):
        num_before += block.count(b"\n")
        left -= len(block)
    data = file.read(MAX_PLAIN_TEXT_BYTES + 1)
    numbers = tuple(range(1, data.count(b"\n") + 2))
    if len(data) > MAX_PLAIN_TEXT_BYTES:
        file.seek(since_byte)
        data, numbers = sieve(file)
    return Content(data=data, mtime_ns=mtime_ns, numbers=tuple(number + num_before for number in numbers))


def _is_log_like(head: bytes) -> bool:
    """Whether a ``[`` begins a log's line and no JSON: ``[rank0]``, ``[2026-11-21 10:00:00]``, ``[W1121``."""
    return re.match(rb"\s*\[[A-Za-z0-9]", head) is not None and not re.match(
        rb"\s*\[\s*(?:\d+\s*[,\]]|true|null)", head
    )


def _read_pipe(path: Path) -> bytes:
    """What a pipe gives until it is closed, or falls silent for `MAX_PIPE_S`."""
    pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    parts: list[bytes] = []
    try:
        size = 0
        while size <= MAX_WHOLE_BYTES:
            if not select.select([pipe], [], [], MAX_PIPE_S)[0]:
                break
            block = os.read(pipe, 1 << 20)
            if not block:
                break
            parts.append(block)
            size += len(block)
    finally:
        os.close(pipe)
    if sum(map(len, parts)) > MAX_WHOLE_BYTES:
        raise UnreadableError(f"gives more than the {MAX_WHOLE_BYTES >> 20} MB that are read")
    return b"".join(parts)


def _matters(text: bytes) -> bool:
    return any(word in text for word in _WORDS)


def sieve(file: Readable) -> tuple[bytes, tuple[int, ...]]:
    """The lines of a text that can matter, and their numbers from 1; of too many the first and the last."""
    first: list[tuple[int, bytes]] = []
    last: deque[tuple[int, bytes]] = deque()
    first_size = last_size = 0
    number = 1
    rest = b""
    while block := file.read(MAX_LINE_BYTES):
        whole, newline, rest = (rest + block).rpartition(b"\n")
        if not newline:
            # A line longer than any that is read: its beginning counts.
            whole, rest = rest[: 2 * MAX_LINE_BYTES], b""
        if _matters(whole):
            for offset, line in enumerate(whole.split(b"\n")):
                if not _matters(line):
                    continue
                if first_size < MAX_SIEVED_BYTES // 2:
                    first.append((number + offset, line))
                    first_size += len(line)
                    continue
                last.append((number + offset, line))
                last_size += len(line)
                while last_size > MAX_SIEVED_BYTES // 2:
                    last_size -= len(last.popleft()[1])
        number += whole.count(b"\n") + len(newline)
    kept = [*first, *last, *([(number, rest)] if _matters(rest) else [])]
    return b"".join(line + b"\n" for _, line in kept), tuple(number for number, _ in kept)
