"""One launcher for one run folder.

[Note: launch lock]
``launch.lock`` is locked with flock while a launcher lives, so that its death, of any kind, releases it. Its text names
the launcher and its agent: when the launcher was killed, the agent and the ranks live on, and a second launch beside
them would write into the same folder. So a free lock whose agent still runs is refused as well.
"""

import fcntl
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from emberward.findings import ConfigError
from emberward.processes import ProcessId, identify, is_alive
from emberward.report import RunFolder, read_json


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

    def __init__(self, file: IO[str], launcher: ProcessId) -> None:
        self._file = file
        self._launcher = launcher
        self._write(None)

    def _write(self, agent: ProcessId | None) -> None:
        def plain(process: ProcessId | None) -> dict[str, int | float] | None:
            return None if process is None else {"pid": process.pid, "created": process.created}

        self._file.seek(0)
        self._file.truncate()
        json.dump({"host": socket.gethostname(), "launcher": plain(self._launcher), "agent": plain(agent)}, self._file)
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


@contextmanager
def hold_lock(folder: RunFolder, *, launcher_pid: int) -> Iterator[LaunchLock]:
    """Holds the folder's lock inside the block. Raises ConfigError C111 at once when another launch uses the folder."""
    with folder.lock.open("a+", encoding="utf-8") as file:
        said = read_json(folder.lock) or {}
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            launcher = _process(said.get("launcher"))
            who = "a launcher" if launcher is None else f"the launcher with pid {launcher.pid} on {said.get('host')}"
            raise _in_use(
                folder, found=f"{who} holds it", next="wait for it, stop it with Ctrl-C, or use --fresh"
            ) from error
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
        lock = LaunchLock(file, launcher)
        try:
            yield lock
        finally:
            lock.clear()
