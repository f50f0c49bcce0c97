"""The process that writes saves, on a file system that fails by plan; and the plans, which a test changes as it goes.

Its argv, before the three words of every writer: the file in which the plan stands.
"""

import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from unit.checkpoint.checkpoint_storages import Fault, FaultyStorage, Plan

from emberward.checkpoint import WritableFile
from emberward.checkpoint._beside import writer_command
from emberward.checkpoint._storage import Disk
from emberward.checkpoint._writing import serve

KILL_RANK = "kill rank"


class PlanFile:
    """The plan of a writer: each `set` begins a new count."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._number = 0
        self.set(None)

    def set(self, fault: str | None, at: int = 0, *, for_ever: bool = False, limit_bytes: int | None = None) -> None:
        """From now on operation `at` fails; None: none does. `limit_bytes`: the kernel lets no file grow beyond it."""
        self._number += 1
        words = {"number": self._number, "fault": fault, "at": at, "for_ever": for_ever, "limit_bytes": limit_bytes}
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(json.dumps(words))
        temporary.rename(self.path)

    @property
    def was_hit(self) -> bool:
        """Whether the fault was met since the last `set`."""
        return self.path.with_suffix(f".{self._number}.hit").exists()

    @property
    def command(self) -> tuple[str, ...]:
        """The argv of a writer that follows this plan."""
        return (*writer_command("unit.checkpoint.faulty_writer"), str(self.path))


class PlannedStorage(FaultyStorage):
    """Follows the plan in a file. The disk below is that of a real writer."""

    def __init__(self, path: Path) -> None:
        super().__init__(Plan(Fault.ERROR, at=0))
        self._path = path
        self._number = 0
        self._disk = Disk(is_direct=True)

    def _follow(self) -> None:
        words = json.loads(self._path.read_text())
        if words["number"] == self._number:
            return
        self._number = words["number"]
        kills_rank = words["fault"] == KILL_RANK
        fault = Fault.KILL_BEFORE if kills_rank else Fault(words["fault"] or "error")
        self._plan = Plan(fault, at=words["at"], for_ever=words["for_ever"])
        self._plan.dies = self._kill_rank if kills_rank else self._kill_self
        limit = words["limit_bytes"] or resource.RLIM_INFINITY
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

    def _mark(self) -> None:
        hit = self._path.with_suffix(f".{self._number}.hit")
        if self._plan.hit and not hit.exists():
            hit.touch()

    def _kill_self(self) -> None:
        self._mark()
        os.kill(os.getpid(), signal.SIGKILL)

    def _kill_rank(self) -> None:
        self._mark()
        os.kill(os.getppid(), signal.SIGKILL)
        signal.pause()  # it follows its rank

    def do(self, what: str, act: Callable[[], None]) -> None:
        self._follow()
        try:
            super().do(what, act)
        finally:
            self._mark()

    def write(self, file: WritableFile, data: memoryview, what: str) -> int:
        self._follow()
        try:
            return super().write(file, data, what)
        finally:
            self._mark()

    def disk(self) -> Disk:
        return self._disk


def main() -> None:
    """The process's program."""
    serve(sys.argv[-3:], PlannedStorage(Path(sys.argv[-4])))
