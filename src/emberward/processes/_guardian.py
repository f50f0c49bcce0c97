"""The guardian's program: ``python -I -S _guardian.py SOCKET OWNER_PID``. Standard library only. See `_tree.py`.

[Note: how the guardian ends a tree]
The guardian is the parent of every process that its owner starts, and a child subreaper (prctl(2)): a descendant whose
parent ends becomes the guardian's own child. So it kills its children, and their children become its own, until it has
none. A child keeps its pid until it is waited for, so that no signal reaches a process that reused a pid, and no
process escapes by a session, a double fork or an environment of its own. Where the kernel has no subreaper (macOS), the
descendants are listed by ``ps`` instead, and one whose parent has ended is not found.
"""

import array
import contextlib
import ctypes
import fcntl
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
"""prctl(2), include/uapi/linux/prctl.h."""
MAX_DESCRIPTORS = 250
"""Below SCM_MAX_FD of Linux (253)."""
MAX_REQUEST_BYTES = 64 << 20
MAX_COPIED_BYTES = 2 << 30
END_LIMIT_S = 30.0
"""How long killed processes may take to end: only one that the kernel holds takes longer than milliseconds."""
GUARDIAN_LIMIT_S = 10.0
"""How long a guardian below this one may take to end its own tree and remove its folders."""
POLL_S = 0.02
IDLE_S = 1.0
IS_LINUX = sys.platform == "linux"
END_NOW = signal.SIGRTMIN + 7 if IS_LINUX else signal.SIGUSR2
"""Asks a guardian to end its tree now; no service manager sends it."""
IGNORED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGALRM")
"""Signals for the owner or its children that may reach the guardian too."""


class Guardian:
    """Starts what the owner asks for, reports exit codes, and ends everything when the owner has ended."""

    def __init__(self, link: socket.socket, owner_pid: int) -> None:
        # A program below us that held the link would keep it open after our death, and its owner waiting for an answer.
        link.set_inheritable(False)
        self._link = link
        self._owner_pid = owner_pid
        self._reports: dict[int, int] = {}
        self._folders: dict[str, dict[str, Any]] = {}
        self._asked: list[int] = []
        self._first: int | None = None
        self._grace_s = 0.0
        self._is_released = False
        self._is_over = False
        self._wake, wake = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        for name in IGNORED:
            number = getattr(signal, name)
            # A handler, which exec undoes: what the owner ignored stays ignored below us, the rest is as it was.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, lambda number, frame: None)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.signal(END_NOW, self._end_now)
        prctl(PR_SET_CHILD_SUBREAPER, 1)

    def run(self) -> None:
        """Serves the owner until it lets go or has ended; then ends the tree and removes its folders."""
        poll = select.poll()
        poll.register(self._link, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        with contextlib.suppress(OSError, AttributeError):
            poll.register(os.pidfd_open(self._owner_pid), select.POLLIN)
        while not self._is_over and os.getppid() == self._owner_pid:
            # The link's end may be held by a fork of the owner: its process is what counts.
            ready = [descriptor for descriptor, _ in poll.poll(1000 * IDLE_S)]
            self._reap()
            if self._link.fileno() in ready and os.getppid() == self._owner_pid:
                self._serve()
        self._read_what_is_left()
        if not self._is_released:
            self._ask()
            self.end_all()
        for path, how in self._folders.items():
            remove_folder(path, how)

    def _end_now(self, number: int, frame: object) -> None:
        self._is_over, self._grace_s = True, 0.0

    # -- requests ----------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        request, descriptors = self._receive()
        try:
            if request is None:
                self._is_over = True
            elif request["do"] == "start":
                self._start(request, descriptors)
                descriptors = descriptors[1:]
            elif request["do"] == "end":
                say(descriptors[0], f"ended {self.end_all()}")
                self._is_over = True
            else:
                self._note(request)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _note(self, request: dict[str, Any]) -> None:
        if request["do"] == "folder":
            self._folders[request["path"]] = request
        elif request["do"] == "forget":
            self._folders.pop(request["path"], None)
        elif request["do"] == "ask":
            self._asked = request["pids"]
        elif request["do"] == "release":
            self._is_released = self._is_over = True

    def _read_what_is_left(self) -> None:
        """What the owner sent before it ended: a folder that it made must not stay."""
        self._link.settimeout(POLL_S)
        with contextlib.suppress(OSError, ValueError):
            while (received := self._receive())[0] is not None:
                self._note(received[0])

    def _receive(self) -> tuple[dict[str, Any] | None, list[int]]:
        """A request with its descriptors; None at the end of the link, also within a request."""
        space = socket.CMSG_SPACE(MAX_DESCRIPTORS * 4)
        try:
            head, controls, _, _ = self._link.recvmsg(4, space)
        except ConnectionError:
            return None, []
        found = array.array("i")
        for level, kind, data in controls:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                found.frombytes(data[: len(data) - len(data) % 4])
        for descriptor in found:
            os.set_inheritable(descriptor, False)
        head = self._receive_rest(head, 4)
        size = int.from_bytes(head, "big")
        if len(head) < 4 or size > MAX_REQUEST_BYTES:
            return None, list(found)
        body = self._receive_rest(b"", size)
        return (None if len(body) < size else json.loads(body)), list(found)

    def _receive_rest(self, data: bytes, size: int) -> bytes:
        parts, length = [data], len(data)
        while length < size:
            try:
                part = self._link.recv(min(size - length, 1 << 20))
            except ConnectionError:
                break
            if not part:
                break
            parts.append(part)
            length += len(part)
        return b"".join(parts)

    # -- starting ----------------------------------------------------------------------------------------------------

    def _start(self, request: dict[str, Any], descriptors: list[int]) -> None:
        """Starts one process; its report says ``failed ERRNO``, or ``started PID`` and later ``exited CODE``."""
        report, *given = descriptors
        problem, ours = os.pipe()
        me = os.getpid()
        pid = os.fork()
        if pid == 0:
            become(request, given, ours, guardian_pid=me)
        os.close(ours)
        with os.fdopen(problem, "rb") as file:
            failure = file.read()
        if failure:
            os.waitpid(pid, 0)
            say(report, f"failed {failure.decode()}")
            os.close(report)
            return
        self._first = self._first or pid
        self._grace_s = max(self._grace_s, float(request["grace_s"]))
        self._reports[pid] = report
        say(report, f"started {pid}")

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake, 4096)
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                report = self._reports.pop(pid, None)
                if report is not None:
                    say(report, f"exited {os.waitstatus_to_exitcode(status)}")
                    os.close(report)

    # -- ending ------------------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        """Sends SIGTERM to those who may save first, else to the first process, and gives them the grace to end."""
        below = descendants()
        asked = [pid for pid in self._asked if pid in below]
        asked = asked or [pid for pid in (self._first,) if pid in self._reports and self._first is not None]
        if not self._grace_s:
            return
        for pid in asked:
            send(pid, signal.SIGTERM)
        end_s = time.monotonic() + self._grace_s
        # The end now may be asked for while we wait: it sets the grace to 0.
        while self._grace_s and time.monotonic() < end_s and set(asked) & descendants():
            time.sleep(POLL_S)
            self._reap()

    def end_all(self) -> int:
        """Kills all that is below us; how many the kernel still holds. See [Note: how the guardian ends a tree]."""
        told: dict[int, float] = {}
        end_s = time.monotonic() + END_LIMIT_S
        while left := (children() if IS_LINUX else descendants()):
            now_s = time.monotonic()
            if now_s >= end_s:
                break
            for pid in left:
                # Asked each time: what a guardian below us has forked looks like it until it becomes its program.
                is_below = is_guardian(pid)
                if is_below and pid not in told:
                    told[pid] = now_s
                    send(pid, END_NOW)
                elif not is_below or now_s - told[pid] >= GUARDIAN_LIMIT_S:
                    send(pid, signal.SIGKILL)
            self._reap()
            if children() & left:
                select.select([self._wake], [], [], POLL_S)
        return len(left)


def become(request: dict[str, Any], given: list[int], problem: int, *, guardian_pid: int) -> None:
    """Turns this fork into the program that was asked for. Never returns."""
    try:
        if request["is_session"]:
            os.setsid()
        else:
            os.setpgid(0, request["group"])
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guardian_pid:
            os._exit(1)
        os.chdir(request["folder"])
        targets = request["targets"]
        above = max([*targets, 2]) + 1
        problem = fcntl.fcntl(problem, fcntl.F_DUPFD_CLOEXEC, above)
        moved = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, above) for descriptor in given]
        for descriptor, target in zip(moved, targets, strict=True):
            os.dup2(descriptor, target, inheritable=True)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, request["mask"])
        if request["environment"] is None:
            os.execvp(request["command"][0], request["command"])
        os.execvpe(request["command"][0], request["command"], request["environment"])
    except OSError as error:
        os.write(problem, str(error.errno or 0).encode())
    finally:
        os._exit(127)


def prctl(option: int, value: int) -> None:
    """Sets an attribute of this process; does nothing where the kernel is not Linux."""
    if IS_LINUX:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def send(pid: int, number: int) -> None:
    """Sends a signal; a process that has ended takes none."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def say(report: int, text: str) -> None:
    """Writes a line of a report; nobody may be there to read it."""
    with contextlib.suppress(OSError):
        os.write(report, f"{text}\n".encode())


def children(pid: int | str = "self") -> set[int]:
    """The children of a process that have not been waited for; of ourselves without an argument."""
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found |= set(map(int, (task / "children").read_text(encoding="ascii").split()))
    return found


def descendants() -> set[int]:
    """All processes below this one, as far as they can be seen."""
    found: set[int] = set()
    if IS_LINUX:
        new = children()
        while new:
            found |= new
            new = {child for pid in new for child in children(pid)} - found
        return found
    command = ["ps", "-axo", "pid=,ppid="]
    done = subprocess.run(command, capture_output=True, timeout=END_LIMIT_S, check=False, text=True)
    pairs = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    new = {os.getpid()}
    while new := {pid for pid, parent in pairs if parent in new} - found:
        found |= new
    return found


def is_guardian(pid: int) -> bool:
    """Whether a process runs this program, and so has a tree and folders of its own to end."""
    with contextlib.suppress(OSError):
        return os.fsencode(__file__) in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:4]
    return False


def remove_folder(path: str, how: dict[str, object]) -> None:
    """Removes a folder of a dead owner; what of it is to be kept is copied first."""
    folder, kept = Path(path), how.get("kept")
    if isinstance(kept, str):
        with contextlib.suppress(OSError):
            keep(folder, Path(kept), str(how["suffix"]))
    shutil.rmtree(folder, ignore_errors=True)
    if how.get("with_parent"):
        with contextlib.suppress(OSError):
            folder.parent.rmdir()


def keep(folder: Path, to: Path, suffix: str) -> None:
    """Copies the files of `folder` with that suffix to the folder `to`, up to MAX_COPIED_BYTES."""
    left = MAX_COPIED_BYTES
    for file in sorted(folder.glob(f"*{suffix}")):
        left -= file.stat().st_size
        if left < 0:
            return
        to.mkdir(parents=True, exist_ok=True)
        temporary = to / f".{file.name}.tmp"
        shutil.copyfile(file, temporary)
        temporary.replace(to / file.name)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        Guardian(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])).run()
    os._exit(0)
