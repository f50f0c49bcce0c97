"""`emberward.watch`: recorder and watcher around a loop of the user's own, in processes that nobody supervises."""

import contextlib
import hashlib
import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from emberward.processes import PIPE, ProcessTree
from emberward.sources.attach import RING_VARIABLE
from emberward.sources.ring import shared_ring_folder

LOCAL_RANKS = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
LAUNCH = (
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "MASTER_ADDR",
    "MASTER_PORT",
)
"""What all ranks of one start have alike, and two starts do not: by it they find one folder for their rings."""
START_LIMIT_S = 20.0
END_LIMIT_S = 30.0
"""How long the watcher may take to write the end, also after this process was killed; then it is killed too."""


class Watching:
    """A process that records and, on the first rank of each host, has a watcher beside it. Close it, or use `with`.

    `folder` is the run's folder on that rank, None on the others and under ``emberward run``, which does all this.
    """

    def __init__(self, folder: Path | None, beside: "_Beside | None", undo: Callable[[], None]) -> None:
        self.folder = folder
        self._beside = beside
        self._undo = undo

    def close(self, *, is_done: bool = True) -> None:
        """Ends the recording; the first rank of a host then waits until the watcher has written the end, 30 s at most.

        With `is_done` false, as after an exception, nobody waits and the recording goes on: the watcher sees how the
        ranks end, and what ended them. Does nothing when it was called before.
        """
        undo, self._undo = self._undo, _nothing
        if is_done:
            undo()
        beside, self._beside = self._beside, None
        if beside is not None:
            beside.end(is_done=is_done)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(is_done=kind is None)


class _Beside:
    """The watcher's process in a tree of its own: it ends with this process, END_LIMIT_S later at most."""

    def __init__(self, command: Sequence[str], told: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        self._tree = ProcessTree(grace_s=END_LIMIT_S)
        self._process = self._tree.start(command, environment=environment, stdin=PIPE, stdout=PIPE, stderr=None)
        self._tell(told)
        # A rank that dies at once is seen only by a watcher that is there.
        assert self._process.stdout is not None
        select.select([self._process.stdout], [], [], START_LIMIT_S)
        self._process.close("stdout")

    def _tell(self, facts: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError), os.fdopen(os.dup(self._process.stdin), "wb") as file:
            file.write(json.dumps(facts).encode() + b"\n")

    def end(self, *, is_done: bool) -> None:
        """Waits until the end is written when the loop is done; else the watcher goes on until the ranks have ended."""
        if is_done:
            self._tell({"done": True})
        self._process.close("stdin")
        if is_done:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_LIMIT_S)
            self._tree.close()


def watch(run: str | Path = "runs/watched") -> Watching:
    """A `Watching` of this process, which began without ``emberward run``. Call it on every rank, all with one `run`.

    Call it before ``init_process_group``, or after it: what was called before is not known. It imports torch, costs a
    ring of 1.3 MB in shared memory and microseconds a call, and communicates with no rank. On the first rank of each
    host it starts one process that watches the ranks of that host, keeps the run's folder ``RUN/ID`` and says on
    standard error what it finds. Nothing is ever ended. Under ``emberward run`` it does nothing, for that does the
    same. Recording that cannot begin is said on standard error, and the program goes on.
    """
    environment = dict(os.environ)
    if environment.get(RING_VARIABLE):
        return Watching(None, None, _nothing)
    path = Path(run).absolute()
    try:
        rings = shared_ring_folder(_key(path, environment))
        undo = _record(rings, environment)
        number = _first(environment, LOCAL_RANKS) or _first(environment, ("RANK",)) or "0"
        if number != "0":
            return Watching(None, None, undo)
        folder, beside = _start_beside(path, rings, environment)
        return Watching(folder, beside, undo)
    except OSError as error:
        sys.stderr.write(f"emberward: this process is not recorded: {error}\n")
        return Watching(None, None, _nothing)


def _record(rings: Path, environment: Mapping[str, str]) -> Callable[[], None]:
    """Switches this process's recorder on; what switches it off again."""
    import torch.distributed as dist  # imported when a person asks to watch, never with the package

    from emberward.sources.recorder import attach, detach, identify_now

    around = attach(str(rings), environment, (), {})
    original = dist.init_process_group

    def init_process_group(*args: Any, **named: Any) -> Any:
        return around(original, args, named)

    if dist.is_initialized():
        identify_now()
    dist.init_process_group = init_process_group

    def undo() -> None:
        if dist.init_process_group is init_process_group:
            dist.init_process_group = original
        detach()

    return undo


def _start_beside(path: Path, rings: Path, environment: Mapping[str, str]) -> tuple[Path, _Beside]:
    from emberward.runs import new_id

    folder = path / new_id()
    folder.mkdir(parents=True)
    command = (sys.executable, "-m", "emberward.supervise.beside", str(folder), str(rings))
    told = {"environment": environment, "command": [sys.executable, *sys.argv]}
    return folder, _Beside(command, told, environment)


def _key(path: Path, environment: Mapping[str, str]) -> str:
    """The name of the ring folder that the ranks of one start on this host find, each by itself."""
    facts = [str(path), socket.gethostname(), *(environment.get(name, "") for name in LAUNCH)]
    return f"{path.name}-{hashlib.sha256(repr(facts).encode()).hexdigest()[:12]}"


def _first(environment: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((environment[name] for name in names if environment.get(name)), None)


def _nothing() -> None:
    """Nothing is to be undone."""
