"""Runs a conversion: files written aside by several threads, remembered one by one, and shown under their name at once.

[Note: order of a conversion]
1. The folder ``.NAME.converting`` is made beside the result, with a journal whose first line says what is converted.
2. Each file is written and fsynced there; then a line of the journal says so, and the journal is fsynced.
3. The source's own checksums are compared where that was not done in passing. Damage removes the folder.
4. What needs all files (a manifest, an index) is written, the folder is fsynced, renamed to its own name, and the
   folder above is fsynced.
A conversion that was killed goes on with the files that its journal does not name, as long as the same is asked for;
else it starts anew. The journal is locked while it is written, so that two do not write one result.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Any

from emberward.checkpoint._storage import DISK
from emberward.findings import Cause, ConfigError, EmberwardError

JOURNAL = "journal.jsonl"
_BATCH_BYTES = 16 << 20
"""Small files are flushed to the disk together until they hold so much."""
_BATCH_FILES = 64
"""Or until they are so many: they are open until they are flushed."""
_NUM_FLUSHING = 2
"""Batches that may wait for the disk while as many threads as were asked for go on writing."""

Tick = Callable[[int], None]
"""Takes the number of bytes of tensors that were just written."""
Told = Callable[[int, int], None]
"""Takes the bytes that are written and the bytes that there are; called from one thread at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutFile:
    """One file to write: its name within the result, the bytes of tensors in it, and what writes it.

    `write` gets the open file and a function that it tells of each part; what it returns, as JSON, is remembered.
    """

    name: str
    num_bytes: int
    write: Callable[[FileIO, Tick], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A conversion, decided in full. `about` tells it from any other: a plan of the same goes on where that one ended.

    `finish` gets the folder aside and what each `write` returned; it writes the files that need all others.
    `num_tensors` are written, moments included; `left_behind` are weights that lie where a program that loads the form
    does not look.
    """

    result: Path
    files: tuple[OutFile, ...]
    about: Mapping[str, Any]
    finish: Callable[[Path, Mapping[str, Mapping[str, Any]]], None]
    num_tensors: int
    left_behind: tuple[str, ...] = ()

    @property
    def temporary(self) -> Path:
        """Where it is written until it is whole."""
        return self.result.with_name(f".{self.result.name}.converting")

    @property
    def num_bytes(self) -> int:
        """Bytes of tensors of all files."""
        return sum(file.num_bytes for file in self.files)

    def fingerprint(self) -> str:
        """Equal for equal conversions."""
        text = json.dumps([dict(self.about), [(file.name, file.num_bytes) for file in self.files]], sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """What a conversion did. `num_kept` files were there from one that had been killed."""

    path: Path
    num_tensors: int
    num_files: int
    num_kept: int
    num_bytes: int
    seconds: float


def proved() -> None:
    """Proves nothing: the bytes of one of our saves were compared with their checksums as they were read."""


def silent(_done: int, _total: int) -> None:
    """Tells nobody."""


def convert(
    plan: Plan,
    *,
    num_workers: int,
    told: Told = silent,
    prove: Callable[[], None] = proved,
    clock: Callable[[], float] = time.monotonic,
) -> Converted:
    """The result, whole on the disk under its name. Blocks; memory: a few times 2 MiB a worker.

    `prove` raises when what was read turns out damaged; then, as with any damage, nothing stays of the result. Raises
    K102 when the result exists, K113 when another process writes it, K103 when the disk refuses.
    """
    began_s = clock()
    if plan.result.exists():
        raise ConfigError(
            "the result exists already",
            code="K102",
            where=str(plan.result),
            expected="a path that is free",
            found="a file or folder",
            next="remove it, or choose another path",
        )
    made = [folder for folder in (plan.result.parent, *plan.result.parent.parents) if not folder.exists()]
    try:
        with _Journal(plan) as journal:
            kept = dict(journal.done)
            run = _Run(plan=plan, journal=journal, told=told)
            try:
                run.write_missing(num_workers)
                prove()
            except EmberwardError:
                _discard(plan, made)
                raise
            plan.finish(plan.temporary, journal.done)
            DISK.fsync_folder(plan.temporary)
            (plan.temporary / JOURNAL).unlink()
            DISK.rename(plan.temporary, plan.result)
            DISK.fsync_folder(plan.result.parent)
    except OSError as error:
        raise _not_written(error, plan) from error
    return Converted(
        path=plan.result,
        num_tensors=plan.num_tensors,
        num_files=len(plan.files),
        num_kept=len(kept),
        num_bytes=plan.num_bytes,
        seconds=clock() - began_s,
    )


def _discard(plan: Plan, made: Sequence[Path]) -> None:
    """Removes what was written of a damaged source, and the folders made for it."""
    shutil.rmtree(plan.temporary, ignore_errors=True)
    with contextlib.suppress(OSError):
        for folder in made:
            folder.rmdir()


def _not_written(error: OSError, plan: Plan) -> EmberwardError:
    return EmberwardError(
        "the conversion could not be written",
        code="K103",
        where=str(error.filename or plan.temporary),
        found=error.strerror or str(error),
        next="fix it and start the same command again: it goes on where it stopped",
        cause=Cause.CHECKPOINT_IO,
    )


class _Journal:
    """The list of files that are whole, in the folder aside; held by one process at a time."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._lock = threading.Lock()
        self.done: dict[str, Mapping[str, Any]] = {}
        plan.temporary.mkdir(parents=True, exist_ok=True)
        self._file = FileIO(plan.temporary / JOURNAL, "a+")

    def __enter__(self) -> "_Journal":
        try:
            fcntl.flock(self._file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise EmberwardError(
                "another conversion writes the same result",
                code="K113",
                where=str(self._plan.temporary),
                expected="one process",
                found="its journal is locked",
                next="wait for it, or choose another path",
                cause=Cause.LOCK,
            ) from error
        try:
            self._read()
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _read(self) -> None:
        """Takes over what an equal conversion has done; clears what another one left."""
        head = {"about": self._plan.fingerprint()}
        lines = self._lines()
        if lines and lines[0] == head:
            self.done = {
                line["file"]: line["result"]
                for line in lines[1:]
                if _size_of(self._plan.temporary / line["file"]) == line["size_bytes"]
            }
        else:
            self._start_anew()
            self._append([head])

    def _lines(self) -> list[dict[str, Any]]:
        self._file.seek(0)
        found = []
        for line in self._file.readall().split(b"\n")[:-1]:
            try:
                found.append(json.loads(line))
            except ValueError:
                break  # the line that was being written when the process was killed
        return found

    def _start_anew(self) -> None:
        for path in sorted(self._plan.temporary.rglob("*"), reverse=True):
            if path.name != JOURNAL:
                path.rmdir() if path.is_dir() else path.unlink()
        self._file.truncate(0)

    def _append(self, lines: Iterable[Mapping[str, Any]]) -> None:
        data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        write_bytes(self._file, data)
        os.fsync(self._file.fileno())

    def add(self, results: Mapping[str, Mapping[str, Any]]) -> None:
        """Remembers files that are whole on the disk."""
        lines = [
            {"file": name, "size_bytes": _size_of(self._plan.temporary / name), "result": dict(result)}
            for name, result in results.items()
        ]
        with self._lock:
            self._append(lines)
            self.done.update(results)


def _size_of(path: Path) -> int | None:
    with contextlib.suppress(OSError):
        return path.stat().st_size
    return None


def write_bytes(file: FileIO, data: memoryview | bytes) -> None:
    """Writes every byte, however few each call takes."""
    rest = memoryview(data)
    while len(rest) > 0:
        rest = rest[file.write(rest) :]


@dataclass(slots=True, kw_only=True)
class _Run:
    """One process's work on a plan."""

    plan: Plan
    journal: _Journal
    told: Told
    written_bytes: int = 0
    stop: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    writing: threading.Semaphore = field(default_factory=threading.Semaphore)

    def write_missing(self, num_workers: int) -> None:
        """Returns when every file of the plan is whole. The first error stops all."""
        missing = [file for file in self.plan.files if file.name not in self.journal.done]
        self.written_bytes = self.plan.num_bytes - sum(file.num_bytes for file in missing)
        self.writing = threading.Semaphore(max(1, num_workers))
        with ThreadPoolExecutor(max_workers=max(1, num_workers) + _NUM_FLUSHING) as pool:
            jobs = [pool.submit(self._write, batch) for batch in _batches(missing)]
            try:
                finished, _ = wait(jobs, return_when=FIRST_EXCEPTION)
                for job in finished:
                    job.result()
            except BaseException:  # also Ctrl-C: the threads end at their next part
                self.stop.set()
                pool.shutdown(cancel_futures=True)
                raise

    def _write(self, batch: Sequence[OutFile]) -> None:
        files, results = list[FileIO](), {}
        try:
            with self.writing:
                for out in batch:
                    path = self.plan.temporary / out.name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    files.append(FileIO(path, "w+"))
                    results[out.name] = out.write(files[-1], self._tick)
            for file in files:
                os.fsync(file.fileno())
        finally:
            for file in files:
                file.close()
        self.journal.add(results)

    def _tick(self, num_bytes: int) -> None:
        if self.stop.is_set():
            raise InterruptedError("stopped by an error in another thread")
        with self.lock:
            self.written_bytes += num_bytes
            self.told(self.written_bytes, self.plan.num_bytes)


def _batches(files: Sequence[OutFile]) -> list[list[OutFile]]:
    """The files in the order given, small ones together."""
    batches: list[list[OutFile]] = []
    room = 0
    for file in files:
        if file.num_bytes > room or not batches or len(batches[-1]) >= _BATCH_FILES:
            batches.append([])
            room = _BATCH_BYTES
        batches[-1].append(file)
        room -= file.num_bytes
    return batches
