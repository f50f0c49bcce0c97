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
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

from emberward.processes import PIPE, ProcessTree
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


class JsonLines:
    """JSON objects, one a line, as they come on a descriptor. Other lines are left out."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = b""
        self.is_closed = False

    def wait(self, timeout_s: float) -> list[dict[str, Any]]:
        """Those that come within `timeout_s`; returns at once when something does, or waits when all has come."""
        ready, _, _ = select.select([] if self.is_closed else [self._descriptor], [], [], timeout_s)
        return self.read() if ready else []

    def read(self) -> list[dict[str, Any]]:
        """Those that have come. Raises BlockingIOError where nothing has and the descriptor does not wait."""
        data = os.read(self._descriptor, MAX_READ_BYTES)
        self.is_closed = not data
        whole, _, self._rest = (self._rest + data).rpartition(b"\n")
        found = []
        for line in whole.splitlines():
            with suppress(ValueError):
                found.append(json.loads(line))
        return [each for each in found if isinstance(each, dict)]


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
        with around_start or nullcontext():
            self._process = tree.start(command, environment=environment, stdin=PIPE, stdout=PIPE)
        assert self._process.stdout is not None
        assert self._process.stdin is not None
        self._lines = JsonLines(self._process.stdout)
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
        try:
            said = self._lines.read()
        except OSError:
            return []
        if not self._lines.is_closed:
            self.heard_s, self.is_up = now_s, True
        return said

    def is_silent(self, *, now_s: float) -> bool:
        """Whether it has ended, or has said nothing for longer than it may."""
        limit_s = SILENT_LIMIT_S if self.is_up else START_LIMIT_S
        return self._process.poll() is not None or now_s - self.heard_s > limit_s

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def stop(self, *, limit_s: float = STOP_LIMIT_S) -> bool:
        """Ends it: by the end of its input, else after `limit_s` by force. One that the kernel holds ends later.

        Whether it ended in order, having read all that the job logged.
        """
        self._process.close("stdin")
        try:
            is_in_order = self._process.wait(limit_s) == 0
        except subprocess.TimeoutExpired:
            self._process.end()
            is_in_order = False
        self._process.close()
        return is_in_order
