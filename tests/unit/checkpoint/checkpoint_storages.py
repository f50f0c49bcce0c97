"""Storages that fail on purpose, each around the real disk."""

import errno
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from emberward.checkpoint import DISK, Hold, Storage, WritableFile


class Fault(StrEnum):
    """What happens at the n-th operation."""

    ERROR = "error"  # EIO, nothing done
    FULL = "full"  # ENOSPC, nothing done
    TORN = "torn"  # half of the bytes are written, then EIO; other operations fail with nothing done
    SHORT = "short"  # half of the bytes are written and the call says so: no fault, and the save must pass
    KILL_BEFORE = "kill before"  # SIGKILL
    KILL_WITHIN = "kill within"  # SIGKILL with half of the bytes written
    KILL_AFTER = "kill after"


@dataclass
class Plan:
    """Fails operation `at` (counted from 1) of the rank; with `for_ever` also all later ones of all ranks."""

    fault: Fault
    at: int
    rank: int = 0
    for_ever: bool = False
    counts: dict[int, int] = field(default_factory=dict)
    hit: bool = False
    log: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    dies: Callable[[], None] = field(default_factory=lambda: _die)

    def strikes(self, rank: int, what: str) -> bool:
        """Counts an operation of `rank` and says whether it is to fail."""
        with self.lock:
            self.counts[rank] = self.counts.get(rank, 0) + 1
            self.log.append(f"rank {rank} {what}")
            strikes = rank == self.rank and self.counts[rank] == self.at
            again = self.for_ever and self.hit
            self.hit = self.hit or strikes
            return strikes or again


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class FaultyStorage:
    """The disk of one rank, failing by plan."""

    def __init__(self, plan: Plan, rank: int = 0) -> None:
        self._plan = plan
        self._rank = rank

    def do(self, what: str, act: Callable[[], None]) -> None:
        if not self._plan.strikes(self._rank, what):
            act()
            return
        match self._plan.fault:
            case Fault.ERROR | Fault.TORN:
                raise OSError(errno.EIO, os.strerror(errno.EIO), what)
            case Fault.FULL:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), what)
            case Fault.SHORT:
                act()
            case Fault.KILL_BEFORE | Fault.KILL_WITHIN:
                self._plan.dies()
            case Fault.KILL_AFTER:
                act()
                self._plan.dies()

    def write(self, file: WritableFile, data: memoryview, what: str) -> int:
        if not self._plan.strikes(self._rank, what):
            return file.write(data)
        half = max(1, len(data) // 2)
        match self._plan.fault:
            case Fault.ERROR:
                raise OSError(errno.EIO, os.strerror(errno.EIO), what)
            case Fault.FULL:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), what)
            case Fault.TORN:
                file.write(data[:half])
                raise OSError(errno.EIO, os.strerror(errno.EIO), what)
            case Fault.KILL_BEFORE:
                self._plan.dies()
            case Fault.KILL_WITHIN:
                file.write(data[:half])
                self._plan.dies()
            case Fault.KILL_AFTER:
                file.write(data)
                self._plan.dies()
            case Fault.SHORT:
                return file.write(data[:half])
        raise AssertionError("unreachable")

    def mkdir(self, path: Path) -> None:
        self.do(f"mkdir {path.name}", lambda: DISK.mkdir(path))

    def create(self, path: Path) -> WritableFile:
        made: list[WritableFile] = []
        self.do(f"create {path.name}", lambda: made.append(self.disk().create(path)))
        return FaultyFile(self, made[0], path.name)

    def disk(self) -> Storage:
        return DISK

    def rename(self, source: Path, target: Path) -> None:
        self.do(f"rename {source.name} to {target.name}", lambda: DISK.rename(source, target))

    def remove(self, path: Path) -> None:
        self.do(f"remove {path.name}", lambda: DISK.remove(path))

    def rmdir(self, path: Path) -> None:
        self.do(f"rmdir {path.name}", lambda: DISK.rmdir(path))

    def fsync_folder(self, path: Path) -> None:
        self.do(f"fsync folder {path.name}", lambda: DISK.fsync_folder(path))

    def listdir(self, path: Path) -> list[str]:
        return DISK.listdir(path)

    def hold(self, path: Path) -> Hold:
        return DISK.hold(path)

    def is_held(self, path: Path) -> bool | None:
        return DISK.is_held(path)


class FaultyFile:
    """A file whose writes and fsyncs are operations of the plan."""

    def __init__(self, storage: FaultyStorage, file: WritableFile, name: str) -> None:
        self._storage = storage
        self._file = file
        self._name = name

    def write(self, data: memoryview) -> int:
        return self._storage.write(self._file, data, f"write {len(data)} bytes of {self._name}")

    def fsync(self) -> None:
        self._storage.do(f"fsync {self._name}", self._file.fsync)

    def close(self) -> None:
        self._file.close()


class PowerCut(BaseException):
    """The machine goes dark; no handler of the save may take it for an error of the file system."""


class Inode:
    """A file: what would be on the disk after a power cut. A new file is empty there until fsync."""

    def __init__(self, durable: bytes = b"") -> None:
        self.durable = durable


class Names:
    """A folder: names in the cache, and names on the disk, which only fsync of the folder brings up to date."""

    def __init__(self) -> None:
        self.cached: dict[str, Inode | Names] = {}
        self.durable: dict[str, Inode | Names] = {}


class PowerLossStorage:
    """The disk, and beside it a model of what survives a power cut at operation `at`.

    POSIX promises no more than this: bytes survive once the file, and names once their folder, has been fsynced.
    `lossy` leaves fsyncs out on purpose, to show that the tests would see it.
    """

    def __init__(self, checkpoint_root: Path, at: int, *, lossy: Callable[[str], bool] = lambda what: False) -> None:
        self.checkpoint_root = checkpoint_root
        self.count = 0
        self._at = at
        self._lossy = lossy
        self.root = Names()
        for entry in sorted(checkpoint_root.iterdir()):
            if entry.is_dir():
                folder = Names()
                for path in entry.iterdir():
                    folder.cached[path.name] = Inode(path.read_bytes())
                folder.durable = dict(folder.cached)
                self.root.cached[entry.name] = folder
            else:
                self.root.cached[entry.name] = Inode(entry.read_bytes())
        self.root.durable = dict(self.root.cached)

    def tick(self) -> None:
        self.count += 1
        if self.count >= self._at:
            raise PowerCut

    def folder(self, path: Path) -> Names:
        if path == self.checkpoint_root:
            return self.root
        node = self.root.cached[path.relative_to(self.checkpoint_root).as_posix()]
        assert isinstance(node, Names)
        return node

    def materialise(self, target: Path, *, names_survive: bool) -> None:
        """The root after the cut: only fsynced bytes, and fsynced names or (a lucky journal) all names."""
        target.mkdir()
        for name, node in (self.root.cached if names_survive else self.root.durable).items():
            if isinstance(node, Inode):
                (target / name).write_bytes(node.durable)
                continue
            (target / name).mkdir()
            for inner, inode in (node.cached if names_survive else node.durable).items():
                assert isinstance(inode, Inode)
                (target / name / inner).write_bytes(inode.durable)

    def mkdir(self, path: Path) -> None:
        self.tick()
        DISK.mkdir(path)
        self.folder(path.parent).cached[path.name] = Names()

    def create(self, path: Path) -> WritableFile:
        self.tick()
        inode = self.folder(path.parent).cached[path.name] = Inode()
        return PowerLossFile(self, DISK.create(path), path, inode)

    def rename(self, source: Path, target: Path) -> None:
        self.tick()
        DISK.rename(source, target)
        node = self.folder(source.parent).cached.pop(source.name)
        self.folder(target.parent).cached[target.name] = node

    def remove(self, path: Path) -> None:
        self.tick()
        DISK.remove(path)
        del self.folder(path.parent).cached[path.name]

    def rmdir(self, path: Path) -> None:
        self.tick()
        DISK.rmdir(path)
        del self.folder(path.parent).cached[path.name]

    def fsync_folder(self, path: Path) -> None:
        self.tick()
        if not self._lossy(f"folder {path.name}"):
            folder = self.folder(path)
            folder.durable = dict(folder.cached)

    def fsync_file(self, path: Path, real: Path, inode: Inode) -> None:
        self.tick()
        if not self._lossy(path.name):
            inode.durable = real.read_bytes()

    def listdir(self, path: Path) -> list[str]:
        return DISK.listdir(path)

    def hold(self, path: Path) -> Hold:
        return DISK.hold(path)

    def is_held(self, path: Path) -> bool | None:
        return DISK.is_held(path)


class PowerLossFile:
    """A file whose bytes are durable only after fsync."""

    def __init__(self, storage: PowerLossStorage, file: WritableFile, path: Path, inode: Inode) -> None:
        self._storage = storage
        self._file = file
        self._path = path
        self._inode = inode

    def write(self, data: memoryview) -> int:
        self._storage.tick()
        return self._file.write(data)

    def fsync(self) -> None:
        self._storage.fsync_file(self._path, self._path, self._inode)

    def close(self) -> None:
        self._file.close()


def all_are_storages() -> tuple[Storage, ...]:
    """For the type checker: each of these, as the real one, is a Storage."""
    return DISK, FaultyStorage(Plan(Fault.ERROR, 1))
