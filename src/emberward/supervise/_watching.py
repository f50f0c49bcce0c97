"""The supervisor's side of the watcher: a child process that looks at the ranks, so that a snapshot that hangs hangs
there.

[Note: the watcher's fate]
Reading a process can block for as long as the kernel likes: ``/proc/PID`` of a process in an uninterruptible wait, a
disk that stalls, a debugger that waits for a stop. So ``python -m emberward.supervise.watcher`` looks, and says what it
found as JSON lines on a pipe which is read without waiting. It ends when its standard input closes, that is, with us.
When it is silent it is ended and started again, MAX_STARTS times in all, and that is itself a finding.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from emberward.findings import Finding
from emberward.processes import PIPE, ProcessTree
from emberward.supervise._node_agent import findings_of
from emberward.supervise._nodes import Node

SILENT_LIMIT_S = 60.0
START_LIMIT_S = 60.0
MAX_STARTS = 3
MAX_READ_BYTES = 1 << 20
STOP_LIMIT_S = 2.0


def watcher_command(
    folder: Path, lag: Path, node: Node | None = None, *, python: str = sys.executable
) -> tuple[str, ...]:
    """The argv of the watcher of the rings in `folder`, `lag`: where it writes who is waited for.

    `node`: this host's place among several.
    """
    more = (
        ()
        if node is None
        else (node.mailbox, node.host, node.address, json.dumps(node.agreed.to_json()), json.dumps(node.port))
    )
    return (python, "-m", "emberward.supervise.watcher", str(folder), str(lag), *more)


class WatcherChild:
    """A running watcher. `poll` it; `stop` it. Nothing here blocks longer than KILL_LIMIT_S of `processes`."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        tree: ProcessTree,
        environment: Mapping[str, str],
        now_s: float,
        around_start: AbstractContextManager[None] | None = None,
    ) -> None:
        self.heard_s = now_s
        self.is_up = False
        self.snapshots: list[Mapping[str, Any]] = []
        self._rest = b""
        with around_start or nullcontext():
            self._process = tree.start(command, environment=environment, stdin=PIPE, stdout=PIPE)
        assert self._process.stdout is not None
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdout, False)
        os.set_blocking(self._process.stdin, False)

    def tell(self, what: Mapping[str, Any]) -> None:
        """Gives the watcher a fact; one that it has no room for is lost."""
        assert self._process.stdin is not None
        try:
            os.write(self._process.stdin, json.dumps(what).encode() + b"\n")
        except OSError:
            return

    def poll(self, *, now_s: float) -> list[dict[str, Any]]:
        """What the watcher has said since the last call: ``{"findings": [...], "resolved": [...], "done": bool}``."""
        assert self._process.stdout is not None
        try:
            data = os.read(self._process.stdout, MAX_READ_BYTES)
        except OSError:
            return []
        if data:
            self.heard_s, self.is_up = now_s, True
        whole, _, self._rest = (self._rest + data).rpartition(b"\n")
        said = []
        for line in whole.splitlines():
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                said.append(value)
        return said

    def is_silent(self, *, now_s: float) -> bool:
        """Whether it has ended, or has said nothing for longer than it may."""
        limit_s = SILENT_LIMIT_S if self.is_up else START_LIMIT_S
        return self._process.poll() is not None or now_s - self.heard_s > limit_s

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def stop(self, *, limit_s: float = STOP_LIMIT_S) -> None:
        """Ends it: by the end of its input, else after `limit_s` by force. One that the kernel holds ends later."""
        self._process.close("stdin")
        try:
            self._process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self._process.end()
        self._process.close()


def findings_in(said: Mapping[str, Any], key: str = "findings") -> list[Finding]:
    """The findings in one of the watcher's lines; what is no finding is left out."""
    return findings_of(said.get(key))
