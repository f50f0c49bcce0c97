"""The owner's side of a process tree: what it starts, the folders it made, and the end of all of it.

[Note: process trees]
Whoever starts processes owns them through a `ProcessTree`: a guardian, one small process, is the parent of everything
that the owner starts. It ends the tree when the owner closes it and when the owner itself ends, however that comes
about: SIGKILL included. It outlives the owner for as long as that takes, and then removes the owner's folders. If the
guardian is killed, the kernel kills its direct children (PR_SET_PDEATHSIG), and the owner ends what else bears its
marker in the environment. `_guardian.py` [Note: how the guardian ends a tree] says how nothing escapes.
"""

import array
import contextlib
import errno
import json
import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from emberward.processes._child import KILL_LIMIT_S, Child, Completed, Streams
from emberward.processes._identity import MARKER, ProcessId, descendants, end, identify, marked

PIPE, DEVNULL = subprocess.PIPE, subprocess.DEVNULL
CLOSE_LIMIT_S = 45.0
"""Longer than the guardian's own bound (END_LIMIT_S there)."""
DRAIN_LIMIT_S = 2.0
"""How long the output of a process that has ended is read on: a descendant may hold the pipe."""
MAX_DESCRIPTORS = 250
SLICE_S = 0.2
GUARDIAN = str(Path(__file__).with_name("_guardian.py"))

OnWait = Callable[[float], None]


class ProcessTree:
    """Owns processes and folders. Leave the block, `close` or `release` it. See [Note: process trees].

    `grace_s`: after the death of the owner, the time from SIGTERM to SIGKILL for those that are named by `ask_first`,
    or else for the first process; 0: they are killed at once. `start`, `run` and `folder` may be called by any thread.
    """

    def __init__(self, *, grace_s: float = 0.0) -> None:
        self._grace_s = grace_s
        self._marker = uuid.uuid4().hex
        self._lock = threading.Lock()
        self._guardian: subprocess.Popen[bytes] | None = None
        self._link: socket.socket | None = None
        self._children: list[Child] = []
        self._folders: list[Path] = []
        self._asked: set[int] = set()

    def __enter__(self) -> "ProcessTree":
        return self

    def __exit__(self, *about: object) -> None:
        self.close()

    # -- processes ---------------------------------------------------------------------------------------------------

    def start(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None,
        folder: Path | None = None,
        stdin: int | None = DEVNULL,
        stdout: int | None = DEVNULL,
        stderr: int | None = DEVNULL,
        is_session: bool = True,
        passes_descriptors: bool = False,
        mask: Collection[int] | None = None,
    ) -> Child:
        """Starts a process, in a session of its own or else in our process group. Raises OSError as Popen does.

        A standard stream is a descriptor, PIPE, DEVNULL, or None for ours. `environment` None: ours.
        `passes_descriptors`: the other descriptors that our caller let us inherit are for the command. `mask`: its
        blocked signals; None: those of this thread.
        """
        report, reporting = os.pipe()
        child = Child(report, command)
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ()) if mask is None else mask
        passed = {target: target for target in _inheritable()} if passes_descriptors else {}
        temporary = [reporting]
        try:
            for target, stream in enumerate((stdin, stdout, stderr)):
                descriptor = _stream(target, stream, child, temporary)
                if descriptor is not None:
                    passed[target] = descriptor
            if len(passed) >= MAX_DESCRIPTORS:
                raise OSError(errno.EMFILE, "too many inherited descriptors to pass on", command[0])
            request = {
                "do": "start",
                "command": [os.fsdecode(word) for word in command],
                "environment": None if environment is None else {**environment, MARKER: self._marker},
                "folder": str(folder or Path.cwd()),
                "targets": list(passed),
                "is_session": is_session,
                "group": os.getpgrp(),
                "mask": [int(number) for number in blocked],
                "grace_s": self._grace_s,
            }
            self._send(request, [reporting, *passed.values()])
        except BaseException:
            child.close()
            raise
        finally:
            for descriptor in temporary:
                os.close(descriptor)
        child.await_start()
        self._children.append(child)
        return child

    def run(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None,
        timeout_s: float,
        given: bytes = b"",
        folder: Path | None = None,
        on_wait: OnWait | None = None,
        mask: Collection[int] | None = None,
        every_s: float = SLICE_S,
    ) -> Completed:
        """How a program ended that was given `given` on its standard input. Blocks, at most `timeout_s` and a little.

        One that does not end in time is killed with its session. `on_wait` is called each `every_s` with the seconds
        that have passed. At most MAX_OUTPUT_BYTES of each stream are kept.
        """
        stdin = PIPE if given else DEVNULL
        child = self.start(
            command, environment=environment, folder=folder, stdin=stdin, stdout=PIPE, stderr=PIPE, mask=mask
        )
        began_s = time.monotonic()
        streams = Streams(child, given)
        try:
            while child.poll() is None and (passed_s := time.monotonic() - began_s) < timeout_s:
                streams.move(min(every_s, timeout_s - passed_s))
                if on_wait is not None:
                    on_wait(passed_s)
            code = child.returncode
            child.end()
            end_s = time.monotonic() + DRAIN_LIMIT_S
            while streams.are_open and time.monotonic() < end_s:
                streams.move(SLICE_S)
        finally:
            child.end()
            child.close()
        seconds = time.monotonic() - began_s
        return Completed(code=code, out=streams.out, errors=streams.errors, seconds=seconds)

    def processes(self) -> set[ProcessId]:
        """All living processes of this tree, without its guardian: whoever their parents are, on Linux."""
        if self._guardian is None:
            return set()
        guardian = identify(self._guardian.pid)
        if guardian is None or sys.platform != "linux":
            return marked(self._marker)
        return descendants(guardian)

    def ask_first(self, pids: Collection[int]) -> None:
        """Names the processes that get SIGTERM, and the grace to save, when the owner has died."""
        if set(pids) != self._asked:
            self._asked = set(pids)
            self._send({"do": "ask", "pids": sorted(self._asked)})

    # -- folders -----------------------------------------------------------------------------------------------------

    def folder(self, prefix: str) -> Path:
        """A new temporary folder, which is removed with the tree."""
        path = Path(tempfile.gettempdir()) / f"{prefix}{secrets.token_hex(4)}"
        self.own_folder(path)
        path.mkdir(mode=0o700)
        self._folders.append(path)
        return path

    def own_folder(self, path: Path, *, kept: Path | None = None, suffix: str = "", with_parent: bool = False) -> None:
        """The guardian removes `path` when the owner has died; call it before the folder is made.

        `kept`: where its files with that `suffix` are copied before. `with_parent`: its parent too, when that is empty.
        """
        how = {"kept": None if kept is None else str(kept), "suffix": suffix, "with_parent": with_parent}
        self._send({"do": "folder", "path": str(path), **how})

    def forget_folder(self, path: Path) -> None:
        """The owner has removed the folder, or wants it kept."""
        self._send({"do": "forget", "path": str(path)})

    # -- the end -----------------------------------------------------------------------------------------------------

    def close(self) -> int:
        """Kills all that runs and removes the folders; how many processes the kernel still holds.

        Blocks, at most CLOSE_LIMIT_S; milliseconds unless the kernel holds a process. May be called twice.
        """
        left = 0
        if self._guardian is not None:
            answer, answering = os.pipe()
            try:
                self._send({"do": "end"}, [answering])
                os.close(answering)
                said = os.read(answer, 64) if select.select([answer], [], [], CLOSE_LIMIT_S)[0] else b""
            finally:
                os.close(answer)
            left = int(said.split()[1]) if said else len(end(marked(self._marker), limit_s=KILL_LIMIT_S))
        self._leave()
        return left

    def release(self) -> None:
        """Lets what still runs go on by itself, and removes the folders."""
        if self._guardian is not None:
            self._send({"do": "release"})
        self._leave()

    def _leave(self) -> None:
        with self._lock:
            guardian, self._guardian = self._guardian, None
            if self._link is not None:
                self._link.close()
                self._link = None
        if guardian is not None:
            try:
                guardian.wait(KILL_LIMIT_S)
            except subprocess.TimeoutExpired:
                guardian.kill()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    guardian.wait(KILL_LIMIT_S)
        for child in self._children:
            child.let_go()
        self._children.clear()
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)
        self._folders.clear()

    # -- the guardian ------------------------------------------------------------------------------------------------

    def _send(self, request: Mapping[str, Any], descriptors: Sequence[int] = ()) -> None:
        """Gives the guardian a request; one that is gone takes none."""
        body = json.dumps(request).encode()
        with self._lock:
            if self._link is None:
                self._link, self._guardian = _start_guardian()
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self._link.sendmsg([len(body).to_bytes(4, "big")], rights)
                self._link.sendall(body)


def _inheritable() -> Iterator[int]:
    """Our descriptors beyond the standard streams that a program we become would have."""
    for path in Path("/dev/fd").iterdir():
        with contextlib.suppress(OSError):
            if int(path.name) > 2 and os.get_inheritable(int(path.name)):
                yield int(path.name)


def _stream(target: int, stream: int | None, child: Child, temporary: list[int]) -> int | None:
    """The descriptor that becomes the child's `target`; None when ours is closed."""
    if stream is None:
        try:
            os.fstat(target)
        except OSError:
            return None
        return target
    if stream == DEVNULL:
        temporary.append(os.open(os.devnull, os.O_RDWR))
        return temporary[-1]
    if stream != PIPE:
        return stream
    read, write = os.pipe()
    ours, theirs = (write, read) if target == 0 else (read, write)
    setattr(child, ("stdin", "stdout", "stderr")[target], ours)
    temporary.append(theirs)
    return theirs


def _start_guardian() -> tuple[socket.socket, "subprocess.Popen[bytes]"]:
    """A guardian in a process group of its own: what ends our group must not end it before its work is done."""
    ours, theirs = socket.socketpair()
    try:
        guardian = subprocess.Popen(
            (sys.executable, "-I", "-S", GUARDIAN, str(theirs.fileno()), str(os.getpid())),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            process_group=0,
        )
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()
    return ours, guardian
