"""One launcher for one run folder.

[Note: launch lock]
``launch.lock`` is locked with flock while a launcher lives, so that its death, of any kind, releases it. Its text names
the launcher and its agent: when the launcher was killed, the agent and the ranks live on, and a second launch beside
them would write into the same folder. So a free lock whose agent still runs is refused as well.

Some file systems keep locks on each host by itself (Lustre with localflock): there a launcher on another host holds
nothing here. But its supervisor writes a heartbeat. So where the text names a launcher of another host, which may as
well have died, the lock is taken only after BEAT_S and more in which that heartbeat did not change. Its age would be
told by another clock.
"""

import fcntl
import json
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

from emberward.findings import ConfigError
from emberward.processes import ProcessId, identify, is_alive
from emberward.report import RunFolder, read_json

BEATS_S = 5.0
"""Two heartbeats, and what a shared file system may keep them back."""
POLL_S = 0.2


def _in_use(folder: RunFolder, *, found: str, next: str) -> ConfigError:
    return ConfigError(
        "another launch uses this run folder",
        code="C111",
        where=str(folder.path),
        expected="one launcher for one run folder",
        found=found,
        next=next,
    )


def _process(value: object) -> ProcessId | None:
    if isinstance(value, dict) and isinstance(value.get("pid"), int) and isinstance(value.get("created"), float):
        return ProcessId(pid=value["pid"], created=value["created"])
    return None


class LaunchLock:
    """A held lock. `name_agent` adds the agent to its text. See [Note: launch lock]."""

    def __init__(self, file: IO[str], launcher: ProcessId, job: str | None) -> None:
        self._file = file
        self._launcher = launcher
        self._job = job
        self._write(None)

    def _write(self, agent: ProcessId | None) -> None:
        def plain(process: ProcessId | None) -> dict[str, int | float] | None:
            return None if process is None else {"pid": process.pid, "created": process.created}

        self._file.seek(0)
        self._file.truncate()
        told = {
            "host": socket.gethostname(),
            "launcher": plain(self._launcher),
            "agent": plain(agent),
            "job": self._job,
        }
        json.dump(told, self._file)
        self._file.flush()

    def name_agent(self, agent: ProcessId) -> None:
        """Writes the agent's identity into the lock file."""
        self._write(agent)

    def clear(self) -> None:
        """Empties the lock file: launcher and agent have ended in order."""
        self._file.seek(0)
        self._file.truncate()
        self._file.flush()


def is_abandoned(folder: RunFolder) -> bool:
    """Whether a launcher of this host died without an end, and its agent is gone too: nothing will happen any more.

    False where no launcher was, as under plain torchrun, and for a launcher on another host, of which nothing is known.
    """
    said = read_json(folder.lock) or {}
    launcher, agent = _process(said.get("launcher")), _process(said.get("agent"))
    if launcher is None or said.get("host") != socket.gethostname():
        return False
    return not is_alive(launcher) and (agent is None or not is_alive(agent))


def _who(said: Mapping[str, Any]) -> str:
    launcher = _process(said.get("launcher"))
    job = "" if said.get("job") is None else f", of SLURM's job {said['job']},"
    return "a launcher" if launcher is None else f"the launcher with pid {launcher.pid} on {said.get('host')}{job}"


def _is_beating(folder: RunFolder) -> bool:
    """Whether the heartbeat of the folder's supervisor changes within BEATS_S. Blocks."""
    first, end_s = read_json(folder.supervisor), time.monotonic() + BEATS_S
    while first is not None and first.get("state") == "runs" and time.monotonic() < end_s:
        now = read_json(folder.supervisor)
        if now is not None and now.get("time_unix") != first.get("time_unix"):
            return True
        time.sleep(POLL_S)
    return False


def _lock(file: IO[str], folder: RunFolder, said: Mapping[str, Any]) -> None:
    next = "wait for it, stop it with Ctrl-C, or use --fresh"
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError) as error:
        raise _in_use(folder, found=f"{_who(said)} holds it", next=next) from error
    except OSError as error:
        raise ConfigError(
            "the run folder cannot be locked",
            code="C112",
            where=str(folder.lock),
            expected="a file system with flock(2)",
            found=str(error),
            next="mount it with locks (Lustre: -o flock; NFS: a lock daemon, or version 4), or --runs DIR elsewhere",
        ) from error
    is_foreign = _process(said.get("launcher")) is not None and said.get("host") != socket.gethostname()
    if is_foreign and _is_beating(folder):
        raise _in_use(folder, found=f"{_who(said)} still writes its heartbeat", next=next)


@contextmanager
def hold_lock(folder: RunFolder, *, launcher_pid: int, job: str | None = None) -> Iterator[LaunchLock]:
    """Holds the folder's lock inside the block. Raises ConfigError C111 at once when another launch uses the folder.

    `job`: the number of the job of SLURM that the launcher belongs to. Raises C112 where nothing can be locked.
    """
    with folder.lock.open("a+", encoding="utf-8") as file:
        said = read_json(folder.lock) or {}
        _lock(file, folder, said)
        agent = _process(said.get("agent"))
        if agent is not None and said.get("host") == socket.gethostname() and is_alive(agent):
            rank_0 = (read_json(folder.rank_file(0)) or {}).get("pid", agent.pid)
            raise _in_use(
                folder,
                found=f"its launcher died, and its ranks, which were asked to save, still run (agent: pid {agent.pid})",
                next=f"wait until they have saved, at most --grace-s; or kill -KILL {rank_0} and lose that save",
            )
        launcher = identify(launcher_pid)
        assert launcher is not None, "a running process has an identity"
        lock = LaunchLock(file, launcher, job)
        try:
            yield lock
        finally:
            lock.clear()
