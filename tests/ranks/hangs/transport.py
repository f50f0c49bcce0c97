"""Programs whose calls all ranks have issued, and whose bytes nobody is told of. ``python transport.py NAME FOLDER``.

Gloo reads a socket when the kernel says that there is something to read. With SO_RCVLOWAT above the size of a message
the kernel never says so: the bytes have come, and whoever waits for them is not woken, as by a card that lost its
interrupts.
"""

import contextlib
import os
import socket
import stat

import torch
import torch.distributed as dist
from job import BAD_STEP, main, say, work


def connections():
    """The process's own TCP connections but those with the store."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 (names only)
        with contextlib.suppress(OSError):
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            end = socket.socket(fileno=os.dup(int(name)))
            if end.type == socket.SOCK_STREAM and end.family in (socket.AF_INET, socket.AF_INET6):
                ports = {end.getsockname()[1], end.getpeername()[1]}
                if int(os.environ["MASTER_PORT"]) not in ports:
                    yield end
                    continue
            end.close()


def deafen(lowest):
    for end in connections():
        with end:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, lowest)


def device_stall(rank, world):
    x = torch.ones(64, 64)
    for i in range(100):
        work(x)
        if i == BAD_STEP:
            deafen(1 << 20)
            say("fault")
        dist.all_reduce(x)


if __name__ == "__main__":
    main(globals())
