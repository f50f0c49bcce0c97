"""Prepared sources in the cache folder: found by content, checked before use, written so that half of one never counts.

[Note: cache]
A part's folder is named by a digest of its text, the tokenizer and the settings: changed text goes to another folder.
It is written aside and renamed when all of it is on the disk, so two programs may prepare the same text at once: one of
the two renames, the other uses that one's. A part that is found is compared with its digests before it is used, and
made anew when it differs.
"""

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import socket
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from emberward.data._indexed import sync_folder
from emberward.data._manifest import Stream, difference, stream_from_json, write_json
from emberward.data._tokenizer import Tokenizer
from emberward.files import anew
from emberward.findings import Cause, ConfigError

# Raised when a change of this code would write other files for the same text.
PART_FORMAT = 1
PART_FILE = "part.json"
STALE_TEMPORARY_S = 86400.0
MAX_SWEPT = 1000
_TEMPORARY = re.compile(r"^[a-z]+-[0-9a-f]+\.(?:tmp|broken)-(?P<host>.+)-(?P<pid>\d+)-[0-9a-f]{8}$")
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST)
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A prepared source. `held_out` is empty when nothing was held out; its streams are named by area, "" for none."""

    train: Stream
    held_out: tuple[Stream, ...]

    def of_origin(self, origin: str) -> "Part":
        """The same part with `origin` as the path that the recipe gives; the cache does not know it."""
        held_out = tuple(replace(stream, origin=origin) for stream in self.held_out)
        return Part(train=replace(self.train, origin=origin), held_out=held_out)


def part_key(kind: str, content: str, tokenizer: Tokenizer, share: float, cut_bytes: int | None) -> str:
    """The name of a part's folder: `kind` and a digest of all that decides its files."""
    facts = [PART_FORMAT, content, tokenizer.identity.content(), share, cut_bytes]
    return f"{kind}-{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:24]}"


def read_part(cache: Path, key: str) -> Part | None:
    """The part in the cache, None when it is not there or its files are not what it says. Hashes the files."""
    try:
        data = json.loads(anew(lambda: (cache / key / PART_FILE).read_text("utf-8")))
        streams = [stream_from_json(entry) for entry in (data["train"], *data["held_out"])]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    for stream in streams:
        if any(difference(cache, record) is not None for record in stream.files):
            return None
    return Part(train=streams[0], held_out=tuple(streams[1:]))


def make_part(cache: Path, key: str, build: Callable[[Path], Part]) -> Part:
    """The part `key`, whose files `build` writes into the folder it is given. Blocks; safe beside other programs.

    Raises D104 when the disk does not take it; nothing of it is left then. See [Note: cache].
    """
    try:
        cache.mkdir(parents=True, exist_ok=True)
        _sweep(cache)
        temporary = _temporary_path(cache, key, "tmp")
        temporary.mkdir()
        try:
            part = build(temporary)
            write_json(
                temporary / PART_FILE,
                {"train": asdict(part.train), "held_out": [asdict(stream) for stream in part.held_out]},
            )
            sync_folder(temporary)
            return _put_in_place(cache, key, temporary, part)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise ConfigError(
            "the prepared data cannot be written",
            code="D104",
            where=str(cache),
            expected="a folder with room for 2 to 4 bytes a token",
            found=error.strerror or str(error),
            next="free some space, or name another folder with data.cache=DIR",
            cause=Cause.DISK_FULL if error.errno in _FULL else Cause.UNKNOWN,
        ) from error


def _put_in_place(cache: Path, key: str, temporary: Path, part: Part) -> Part:
    """Rename `temporary` to its name. When another program was first, its part counts; a damaged one is moved away."""
    for _ in range(2):
        try:
            temporary.rename(cache / key)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
        else:
            sync_folder(cache)
            return part
        theirs = read_part(cache, key)
        if theirs is not None:
            return theirs
        broken = _temporary_path(cache, key, "broken")
        (cache / key).rename(broken)
        shutil.rmtree(broken, ignore_errors=True)
    raise OSError(errno.EBUSY, f"{cache / key} is damaged again as soon as it is replaced")


def _temporary_path(cache: Path, key: str, word: str) -> Path:
    """A name that no other program takes and that tells who made it."""
    return cache / f"{key}.{word}-{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


def _sweep(cache: Path) -> None:
    """Delete what programs that died left aside: at once on this host, after a day on another. At most MAX_SWEPT."""
    for _, path in zip(range(MAX_SWEPT), sorted(cache.iterdir()), strict=False):
        match = _TEMPORARY.match(path.name)
        if match is None:
            continue
        if match["host"] == socket.gethostname():
            stale = not _is_alive(int(match["pid"]))
        else:
            stale = time.time() - path.stat().st_mtime > STALE_TEMPORARY_S
        if stale:
            shutil.rmtree(path, ignore_errors=True)


def _is_alive(pid: int) -> bool:
    """Whether a process with this number runs on this host."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
