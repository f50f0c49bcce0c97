"""A process of a tree as its owner sees it: its exit code, its pipes, its end."""

import contextlib
import errno
import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass

from emberward.processes._identity import ProcessId, identify, send

START_LIMIT_S = 60.0
KILL_LIMIT_S = 5.0
MAX_OUTPUT_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """How a program ended. `code` is negative for a signal, and None when it did not end in time and was killed."""

    code: int | None
    out: bytes
    errors: bytes
    seconds: float


class Child:
    """A process of a tree. Its pipes are files when PIPE was asked for."""

    def __init__(self, report: int, command: Sequence[str]) -> None:
        self._report: int | None = report
        self._rest = b""
        self.command = tuple(command)
        self.pid = 0
        self.identity: ProcessId | None = None
        self.returncode: int | None = None
        self.stdin: int | None = None
        self.stdout: int | None = None
        self.stderr: int | None = None

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs. Does not wait.

        -SIGKILL when its guardian was killed: then the kernel has killed it too.
        """
        self._read(0.0)
        return self.returncode

    def wait(self, timeout_s: float) -> int:
        """Its exit code. Raises subprocess.TimeoutExpired after `timeout_s`."""
        end_s = time.monotonic() + timeout_s
        while self.returncode is None:
            left_s = end_s - time.monotonic()
            self._read(max(left_s, 0.0))
            if self.returncode is None and left_s <= 0:
                raise subprocess.TimeoutExpired(self.command, timeout_s)
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Sends a signal to that very process; nothing when it has ended."""
        if self.poll() is None and self.identity is not None:
            send(self.identity, number)

    def end(self) -> int | None:
        """Kills it and the rest of its session; its exit code, None when the kernel still holds it."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if os.getpgid(self.pid) == self.pid:
                    os.killpg(self.pid, signal.SIGKILL)
            self.send_signal(signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.wait(KILL_LIMIT_S)
        return self.returncode

    def close(self, *names: str) -> None:
        """Closes its pipes, or those that are named."""
        for name in names or ("stdin", "stdout", "stderr"):
            descriptor = getattr(self, name)
            if descriptor is not None:
                setattr(self, name, None)
                os.close(descriptor)

    @property
    def report(self) -> tuple[int, ...]:
        """The descriptor that can be read when it has ended; none after that was seen."""
        return () if self._report is None else (self._report,)

    def await_start(self) -> None:
        """Waits until the program runs. Raises the OSError of its start, and then holds nothing."""
        what, _, value = (self._line(START_LIMIT_S) or "").partition(" ")
        if what == "started":
            self.pid = int(value)
            self.identity = identify(self.pid)
            return
        self.let_go()
        number = int(value) if what == "failed" else errno.ESRCH
        raise OSError(number, os.strerror(number), self.command[0])

    def let_go(self) -> None:
        """Gives the descriptors back: its tree is closed."""
        if self._report is not None:
            self._read(0.0)
        if self._report is not None:
            os.close(self._report)
            self._report = None
        self.close()

    def _line(self, timeout_s: float) -> str | None:
        """The next line of the report; "" at its end, None when there is none within the time."""
        assert self._report is not None
        if b"\n" not in self._rest:
            if not select.select([self._report], [], [], timeout_s)[0]:
                return None
            data = os.read(self._report, 4096)
            if not data:
                return ""
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def _read(self, timeout_s: float) -> None:
        if self.returncode is not None or self._report is None:
            return
        line = self._line(timeout_s)
        if line is None:
            return
        self.returncode = int(line.partition(" ")[2]) if line else -signal.SIGKILL
        os.close(self._report)
        self._report = None


class Streams:
    """Moves what a child reads and writes, without waiting longer than asked."""

    def __init__(self, child: Child, given: bytes) -> None:
        self._child = child
        self._given = given
        self._parts: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
        self._room = {"stdout": MAX_OUTPUT_BYTES, "stderr": MAX_OUTPUT_BYTES}
        if child.stdin is not None:
            os.set_blocking(child.stdin, False)

    @property
    def are_open(self) -> bool:
        """Whether the child's output may go on."""
        return self._child.stdout is not None or self._child.stderr is not None

    @property
    def out(self) -> bytes:
        """What it wrote to its standard output."""
        return b"".join(self._parts["stdout"])

    @property
    def errors(self) -> bytes:
        """What it wrote to its standard error."""
        return b"".join(self._parts["stderr"])

    def move(self, timeout_s: float) -> None:
        """Moves what can be moved; returns at once when the child has ended."""
        child = self._child
        names = {fd: name for name in self._parts if (fd := getattr(child, name)) is not None}
        writable = [] if child.stdin is None else [child.stdin]
        ready, able, _ = select.select([*names, *child.report], writable, [], timeout_s)
        if able:
            self._write()
        for descriptor in names:
            if descriptor in ready:
                self._read(names[descriptor], descriptor)

    def _write(self) -> None:
        assert self._child.stdin is not None
        try:
            self._given = self._given[os.write(self._child.stdin, self._given[:65536]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._given = b""
        if not self._given:
            self._child.close("stdin")

    def _read(self, name: str, descriptor: int) -> None:
        data = os.read(descriptor, 1 << 16)
        if not data:
            self._child.close(name)
            return
        kept = data[: self._room[name]]
        self._room[name] -= len(kept)
        self._parts[name].append(kept)
