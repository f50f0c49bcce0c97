"""Real processes that start in milliseconds: forks of one that has torch, or the command line, loaded already.

Importing torch costs seconds of processor time in each process, and most tests are not about that. A `WarmProcess` has
its own pid, streams, environment, working folder and exit code; only its command line in /proc is the server's.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

SERVER = Path(__file__).with_name("warm_server.py")
TORCH = (
    "torch",
    "torch.distributed",
    "torch.distributed.device_mesh",
    "torch.distributed.fsdp",
    "torch.nn.parallel",
    "torch.utils.data",
    "torch._dynamo",
)
"""What ranks of most programs import; the last is imported by FSDP2 at its first use."""
RANK = ("emberward.rank._join", "emberward.rank._session", "emberward.rank._dry", "emberward.sources.recorder")
"""What a rank of Emberward imports beside torch, live or dry."""
START_LIMIT_S = 120.0


class WarmProcess:
    """One forked program."""

    def __init__(self, server: "WarmServer", pid: int) -> None:
        self.pid = pid
        self._server = server

    @property
    def returncode(self) -> int | None:
        """As of subprocess.Popen: the exit code, minus a signal's number, None while it runs."""
        return self._server.exits.get(self.pid)

    def poll(self) -> int | None:
        """The exit code, None while it runs."""
        return self.returncode

    def wait(self, timeout: float) -> int:
        """The exit code; raises subprocess.TimeoutExpired after `timeout` seconds."""
        end = time.monotonic() + timeout
        with self._server.changed:
            while (code := self.returncode) is None:
                if not self._server.changed.wait(end - time.monotonic()):
                    raise subprocess.TimeoutExpired(str(self.pid), timeout)
        return code

    def send_signal(self, number: int) -> None:
        """Sends a signal, unless it has ended: its pid may be another's by then."""
        if self.returncode is None:
            # The server waits for it first and says so after that: in between it is gone, and we do not know yet.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


class WarmServer:
    """A process that has `modules` loaded and forks programs from itself. `close` it; its programs live on."""

    def __init__(self, *modules: str, environment: Mapping[str, str] | None = None) -> None:
        self.environment = dict(os.environ if environment is None else environment)
        self.exits: dict[int, int] = {}
        self.changed = threading.Condition()
        self._started: list[int] = []
        self._lock = threading.Lock()
        self._peer, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, str(SERVER), str(theirs.fileno()), *modules]
        self._process = subprocess.Popen(command, env=self.environment, pass_fds=[theirs.fileno()])
        theirs.close()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            try:
                message = self._peer.recv(4096)
            except OSError:
                message = b""
            with self.changed:
                if not message:
                    self._started.append(0)
                    self.changed.notify_all()
                    return
                said = json.loads(message)
                if "exit" in said:
                    self.exits[said["pid"]] = said["exit"]
                else:
                    self.exits.pop(said["started"], None)  # of an older process with this pid
                    self._started.append(said["started"])
                self.changed.notify_all()

    def start(
        self,
        argv: list[str],
        *,
        cwd: Path,
        stdout: IO[bytes] | int,
        stderr: IO[bytes] | int,
        stdin: IO[bytes] | int | None = None,
        module: str | None = None,
        env: Mapping[str, str] | None = None,
        is_session: bool = True,
    ) -> WarmProcess:
        """A new process that runs the script ``argv[0]``, or `module` as ``python -m`` does, with `env` added.

        Raises RuntimeError when the server is gone. Blocks until the process is there, and the server has its modules.
        """
        job = {
            "argv": argv,
            "module": module,
            "env": {**self.environment, **(env or {})},
            "cwd": str(cwd),
            "session": is_session,
        }
        with Path(os.devnull).open("rb") as null:
            given = (null if stdin is None else stdin, stdout, stderr)
            streams = [each if isinstance(each, int) else each.fileno() for each in given]
            with self._lock:
                socket.send_fds(self._peer, [json.dumps(job).encode()], streams)
                return WarmProcess(self, self._next_pid())

    def _next_pid(self) -> int:
        with self.changed:
            if not self.changed.wait_for(lambda: self._started, START_LIMIT_S) or self._started[0] == 0:
                raise RuntimeError("the process that programs are forked from is gone or does not answer")
            return self._started.pop(0)

    def close(self) -> None:
        """Ends the process that forks. Programs that still run are the caller's to end."""
        self._peer.close()
        self._process.kill()
        self._process.wait(START_LIMIT_S)


class Piped:
    """A program forked from `server` whose streams are ours, with the part of subprocess.Popen that tests need."""

    def __init__(self, server: WarmServer, argv: list[str], *, cwd: Path, module: str | None, env: Mapping[str, str]):
        (given, self._stdin), (out, writes_out), (err, writes_err) = os.pipe(), os.pipe(), os.pipe()
        try:
            self._program = server.start(
                argv, cwd=cwd, stdin=given, stdout=writes_out, stderr=writes_err, module=module, env=env
            )
        finally:
            for theirs in (given, writes_out, writes_err):
                os.close(theirs)
        self.pid = self._program.pid
        self.stdout, self._stderr = os.fdopen(out, encoding="utf-8"), os.fdopen(err, encoding="utf-8")

    @property
    def returncode(self) -> int | None:
        """The exit code, minus a signal's number, None while it runs."""
        return self._program.returncode

    def send_signal(self, number: int) -> None:
        """Sends a signal, unless it has ended."""
        self._program.send_signal(number)

    def communicate(self, given: str = "", *, timeout: float) -> tuple[str, str]:
        """What is left of its output and errors at its end; kills it and raises after `timeout` seconds."""
        end = time.monotonic() + timeout
        with ThreadPoolExecutor(2) as pool, self.stdout, self._stderr:
            rest = [pool.submit(stream.read) for stream in (self.stdout, self._stderr)]
            try:
                with os.fdopen(self._stdin, "w", encoding="utf-8") as stdin, contextlib.suppress(BrokenPipeError):
                    stdin.write(given)
                    stdin.flush()
                self._program.wait(timeout)
                out, err = (each.result(end - time.monotonic()) for each in rest)
            except BaseException:
                self._program.kill()
                raise
        return out, err
