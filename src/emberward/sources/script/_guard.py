"""Keeps an examined script from changing anything outside its scratch folder. See [Note: what is refused].

[Note: what is refused]
Python tells its audit hooks (PEP 578) of every file it opens or changes, every connection and every program it starts.
Writes outside the scratch folder, connections and servers other than local sockets, and other programs are refused
with PermissionError and listed. Code that is not Python and writes files by itself is not told of; torch.save is, and
is held to the same rule.
"""

import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

MAX_LISTED = 50
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
    "shutil.rmtree": (0,),
    "shutil.move": (0, 1),
}
"""Audit events that change the disk, and which of their arguments are the paths changed."""
_PROGRAMS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.startfile", "pty.spawn")
_ALLOWED_FILES = ("/dev/null", "/dev/shm", "/dev/tty", "/dev/urandom")


class Guard:
    """Refuses effects outside `folders` once it is on; it cannot be taken off again in this process."""

    def __init__(self, folders: tuple[Path, ...], *, say: Callable[[str], None]) -> None:
        self._folders = tuple(os.path.realpath(folder) for folder in folders)
        self._say = say
        self._num_said = 0

    def install(self) -> None:
        """Puts the guard on."""
        sys.addaudithook(self._hook)

    def require_inside(self, path: Any) -> None:
        """Raises PermissionError unless `path` may be written."""
        if isinstance(path, int) or path is None:
            return
        try:
            real = os.path.realpath(os.fsdecode(path))
        except (TypeError, ValueError):
            return
        if real.startswith(_ALLOWED_FILES) or any(real == f or real.startswith(f + "/") for f in self._folders):
            return
        self._refuse(f"write {real}")

    def _refuse(self, what: str) -> None:
        if self._num_said < MAX_LISTED:
            self._num_said += 1
            self._say(what)
        raise PermissionError(f"refused while the script is examined: {what}")

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = args
            if (isinstance(mode, str) and set(mode) & set("wax+")) or (isinstance(flags, int) and flags & _WRITING):
                self.require_inside(path)
        elif event in _CHANGES:
            for position in _CHANGES[event]:
                self.require_inside(args[position])
        elif event in ("socket.connect", "socket.bind", "socket.sendto"):
            if args[0].family != socket.AF_UNIX:
                self._refuse(f"{event.removeprefix('socket.')} {args[1]}")
        elif event == "socket.getaddrinfo" and args[0] not in (None, "localhost", "127.0.0.1", "::1"):
            self._refuse(f"look up {args[0]}")
        elif event in _PROGRAMS:
            self._refuse(f"start {args[0]}")
