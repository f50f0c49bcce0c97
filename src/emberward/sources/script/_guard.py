"""Keeps an examined script from effects that the scratch layer cannot hold. See [Note: what is refused].

[Note: what is refused]
Files, programs and loopback belong to the view of the machine (`_sandbox.py`) and need no guard. What would leave it
is refused with `RefusedError` and listed with its line: connections to other machines, look-ups of their names,
sockets of services that were there before the examination. Where the kernel gives no view, writes go to a layer of
files (`_file_layer.py`); what passes it by, programs that may write, loopback and signals are refused. Python reports
these to its audit hooks (PEP 578), in the rank and in every process that it forks; code that is not Python finds no
network.
"""

import errno
import ipaddress
import json
import os
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from emberward.events import Site
from emberward.sources.script._programs import only_reads

MAX_LISTED = 50
_TORCH = f"{os.sep}torch{os.sep}"
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = {
    "os.mkdir": (0,),
    "os.rmdir": (0,),
    "os.remove": (0,),
    "os.rename": (0, 1),
    "os.link": (1,),
    "os.symlink": (1,),
    "os.truncate": (0,),
    "os.chmod": (0,),
    "os.chown": (0,),
    "os.utime": (0,),
    "sqlite3.connect": (0,),
}
"""Audit events that change the disk, and which of their arguments are the paths changed."""
_PROGRAMS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "pty.spawn")
_ALLOWED_FILES = ("/dev/null", "/dev/shm", "/dev/tty", "/dev/urandom")
_OF_ITS_CPP = (
    "not compiled with CUDA",
    "torch._C' has no attribute '_cuda",
    "NVIDIA driver",
    "ATen_cuda",
    "'CUDA' backend",
)
_OF_TORCH = (*_OF_ITS_CPP, "CUDA", "GPU", "cuda")
"""Words of errors by which torch says that there is no CUDA."""
_NETWORK_ERRORS = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN)


class RefusedError(PermissionError):
    """An effect of the script that we refused; never the script's own fault."""


class Guard:
    """Refuses effects that would leave the view once it is on; it cannot be taken off again in this process.

    `log` takes one JSON line for each refusal, from every process of the examination. `only_folder`: the one folder
    that may be written where there is no view of its own, None where there is one.
    """

    def __init__(
        self, *, log: Path, began_s: float, find_site: Callable[[], Site | None], only_folder: Path | None
    ) -> None:
        self._log = log
        self._began_s = began_s
        self._find_site = find_site
        self._names = {"localhost", "", socket.gethostname(), socket.getfqdn()}
        self._num_said = 0
        self._only_folder = None if only_folder is None else os.path.realpath(only_folder)

    def install(self) -> None:
        """Puts the guard on."""
        sys.addaudithook(self._hook)

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if event in ("socket.connect", "socket.sendto"):
            self._connection(args[0].family, args[1])
        elif event == "socket.getaddrinfo" and not (self._is_here(args[0]) or _address(_text(args[0]))):
            self.refuse(f"look up {_text(args[0])}")
        elif self._only_folder is not None:
            self._without_view(event, args)

    def _without_view(self, event: str, args: tuple[Any, ...]) -> None:
        """What a view of the machine would hold."""
        if event == "open":
            path, mode, flags = args
            if (isinstance(mode, str) and set(mode) & set("wax+")) or (isinstance(flags, int) and flags & _WRITING):
                self._require_inside(path)
        elif event in _CHANGES:
            for position in _CHANGES[event]:
                self._require_inside(args[position])
        elif event in _PROGRAMS and not only_reads(event, args, own_folder=str(self._only_folder)):
            self.refuse(f"start {args[0]}")
        elif event == "os.kill" and args[0] != os.getpid() and not _is_child(args[0]):
            self.refuse(f"signal process {args[0]}")

    def _require_inside(self, path: Any) -> None:
        """Refuses unless `path` may be written."""
        if isinstance(path, int) or path is None or os.fsdecode(path) == ":memory:":
            return
        real = os.path.realpath(os.fsdecode(path))
        if not real.startswith(_ALLOWED_FILES) and not f"{real}/".startswith(f"{self._only_folder}/"):
            self.refuse(f"write {real}")

    def _connection(self, family: int, address: Any) -> None:
        if family == socket.AF_UNIX:
            path = os.fsdecode(address) if isinstance(address, str | bytes | os.PathLike) else ""
            if path and not path.startswith("\0") and _is_older(path, self._began_s):
                self.refuse(f"connect {path}")
        elif family in (socket.AF_INET, socket.AF_INET6) and (
            self._only_folder is not None or not self._is_here(address[0])
        ):
            self.refuse(f"connect {address[0]}:{address[1]}")

    def _is_here(self, host: Any) -> bool:
        """Whether `host` is this machine."""
        if host is None:
            return True
        name = _text(host)
        if name in self._names:
            return True
        found = _address(name)
        return found is not None and (found.is_loopback or found.is_unspecified)

    def refuse(self, what: str) -> None:
        """Lists the refusal and raises it."""
        if self._num_said < MAX_LISTED:
            self._num_said += 1
            site = self._find_site()
            line = json.dumps({"what": what, "site": None if site is None else str(site)}) + "\n"
            descriptor = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                os.write(descriptor, line.encode())
            finally:
                os.close(descriptor)
        raise RefusedError(f"refused while the script is examined: {what}")


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that `name` spells, None when it is a name."""
    try:
        return ipaddress.ip_address(name.split("%")[0])
    except ValueError:
        return None


def _text(host: Any) -> str:
    return host.decode("utf-8", "replace") if isinstance(host, bytes) else str(host)


def _is_child(pid: int) -> bool:
    """Whether the process is one that this one started."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return False
    return int(fields[1]) == os.getpid()


def _is_older(path: str, began_s: float) -> bool:
    try:
        return os.stat(path).st_ctime < began_s  # noqa: PTH116 (a text, in an audit hook)
    except OSError:
        return False


def read_refusals(log: Path) -> list[str]:
    """What was refused, each once, with its line."""
    if not log.exists():
        return []
    found = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    lines = [entry["what"] if entry["site"] is None else f"{entry['what']} ({entry['site']})" for entry in found]
    return list(dict.fromkeys(lines))[:MAX_LISTED]


def limit_behind(error: BaseException, read_only: tuple[str, ...]) -> str | None:
    """What of the examination's own limits led to `error`, None when it is the script's own.

    Such a limit is a refusal, a network that is not there, a folder that could not be layered, or a program that
    ended otherwise than well, which may lack what we withhold.
    """
    for link in chain_of(error):
        if isinstance(link, RefusedError):
            return str(link)
        if isinstance(link, socket.gaierror) or (isinstance(link, OSError) and link.errno in _NETWORK_ERRORS):
            return f"there is no network while the script is examined: {link}"
        if isinstance(link, OSError) and link.errno == errno.EROFS:
            name = os.path.realpath(str(link.filename))
            if any(name == folder or name.startswith(f"{folder}/") for folder in read_only):
                return f"{name} is read-only while the script is examined"
        if isinstance(link, OSError) and link.errno == errno.EOVERFLOW:
            # A user namespace knows one user and one group; overlayfs cannot copy up what belongs to another one.
            return f"{link.filename} or its folder belongs to another user or group, which cannot be layered"
        if isinstance(link, subprocess.CalledProcessError):
            return f"the program {link.cmd} ended with {link.returncode} in the examination"
    return None


def cuda_behind(error: BaseException) -> str | None:
    """What of CUDA led to `error` that the CPU cannot play, None when it is something else.

    Torch says so in its own words, or in those of the C++ that a line of the script called.
    """
    for link in chain_of(error):
        text = str(link)
        frames = list(traceback.walk_tb(link.__traceback__))
        is_by_torch = bool(frames) and _TORCH in frames[-1][0].f_code.co_filename
        if any(word in text for word in (_OF_TORCH if is_by_torch else _OF_ITS_CPP)):
            return f"CUDA is played by the CPU while the script is examined: {text.splitlines()[0]}"
    return None


def chain_of(error: BaseException) -> Iterator[BaseException]:
    """`error` and what it came from, at most 50."""
    seen: list[BaseException] = []
    left: list[BaseException | None] = [error]
    while left and len(seen) < 50:
        link = left.pop()
        if link is None or any(link is other for other in seen):
            continue
        seen.append(link)
        yield link
        left += [link.__cause__, link.__context__]
