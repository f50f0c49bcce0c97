"""Who writes a ring."""

import contextlib
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class RingIdentity:
    """A process and its place in the job. `start_ticks`: field 22 of ``/proc/PID/stat`` (proc(5)), None without /proc.

    A pid with its start ticks names one process for ever on one boot of one host. `rank` and `world_size` are None
    until the process knows them.
    """

    rank: int | None
    world_size: int | None
    local_rank: int | None
    pid: int
    start_ticks: int | None
    host: str
    boot_id: str
    began_unix: float
    began_ns: int


def identity_here(*, rank: int | None, world_size: int | None, local_rank: int | None) -> RingIdentity:
    """The identity of this process, which begins to write now."""
    return RingIdentity(
        rank=rank,
        world_size=world_size,
        local_rank=local_rank,
        pid=os.getpid(),
        start_ticks=start_ticks_of(os.getpid()),
        host=socket.gethostname(),
        boot_id=boot_id(),
        began_unix=time.time(),
        began_ns=time.monotonic_ns(),
    )


def start_ticks_of(pid: int) -> int | None:
    """When the process started, in clock ticks since boot; None when it is gone or there is no /proc."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        # The name in parentheses may hold spaces and parentheses: fields count from after the last one.
        return int(Path(f"/proc/{pid}/stat").read_bytes().rsplit(b")", 1)[1].split()[19])
    return None


def boot_id() -> str:
    """Names this boot of this host; "" where the system has no such name."""
    with contextlib.suppress(OSError):
        return BOOT_ID.read_text(encoding="ascii").strip().replace("-", "")[:32]
    return ""
