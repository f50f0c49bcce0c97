"""How processes ended that are not our children: their exit codes, asked of the kernel.

[Note: exit codes of processes that are not our children]
The ranks of a job are children of torchrun or srun, which alone may wait for them. A pidfd that was opened while the
process lived says when it ends, and on Linux 6.15 or newer its exit status once its parent has reaped it
(``PIDFD_GET_INFO`` with ``PIDFD_INFO_EXIT``, include/uapi/linux/pidfd.h). Until then, and on an older kernel, it is
read from ``/proc/PID/stat`` while the process is a zombie (proc_pid_stat(5), field 52). Its parent may reap it
between the two: then the pidfd is asked again. On an older kernel both may come too late: then it is None.
"""

import fcntl
import os
import select
import struct
from dataclasses import dataclass
from pathlib import Path

_INFO_BYTES = 64
_GET_INFO = (3 << 30) | (_INFO_BYTES << 16) | (0xFF << 8) | 11
_WANT_EXIT = 1 << 3
_EXIT_CODE_FIELD = 51


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """That a process ended, when that was seen (seconds since 1970), and its exit code: negative for a signal.

    `exit_code` is None when the kernel no longer told.
    """

    exit_code: int | None
    seen_unix: float


class ExitWatch:
    """Watches one living process for its end. `close` it; it holds a file descriptor."""

    def __init__(self, pid: int) -> None:
        """Opens the watch. Raises ProcessLookupError when there is no such process, OSError when it cannot be had."""
        self.pid = pid
        self._descriptor: int | None = os.pidfd_open(pid)
        self._poll = select.poll()
        self._poll.register(self._descriptor, select.POLLIN)

    def ended(self, *, now_unix: float) -> Ended | None:
        """How the process ended, or None while it lives. Does not wait."""
        if self._descriptor is None or not self._poll.poll(0):
            return None
        return Ended(exit_code=_status(self._descriptor, self.pid), seen_unix=now_unix)

    def close(self) -> None:
        """Gives the descriptor back; may be called twice."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _status(descriptor: int, pid: int) -> int | None:
    """The exit code of the process behind the pidfd. See [Note: exit codes of processes that are not our children]."""
    code = _kept_status(descriptor)
    if code is None:
        code = _zombie_status(pid)
    return _kept_status(descriptor) if code is None else code


def _kept_status(descriptor: int) -> int | None:
    """The exit code that the kernel keeps of a process that was reaped; None before, and on an older kernel."""
    answer = bytearray(_INFO_BYTES)
    struct.pack_into("=Q", answer, 0, _WANT_EXIT)
    try:
        fcntl.ioctl(descriptor, _GET_INFO, answer)
        (mask,) = struct.unpack_from("=Q", answer, 0)
        if mask & _WANT_EXIT:
            return os.waitstatus_to_exitcode(struct.unpack_from("=i", answer, _INFO_BYTES - 4)[0])
    except (OSError, ValueError):
        pass
    return None


def _zombie_status(pid: int) -> int | None:
    """The exit code that a zombie still carries; None when it is gone or may not be read."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        # The name may hold blanks and parentheses: fields are counted after its last one, which ends field 2.
        fields = text[text.rindex(")") + 2 :].split()
        if fields[0] != "Z":
            return None
        return os.waitstatus_to_exitcode(int(fields[_EXIT_CODE_FIELD - 2]))
    except (OSError, ValueError, IndexError):
        return None
