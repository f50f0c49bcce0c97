"""A healthy job of which rank 0 is away for a while: `torchrun job.py KIND SECONDS`. Its peers wait at a barrier.

Each kind pauses as real programs do: some show bytes or processor time, some only system calls that return, some
nothing at all. `stuck` and `skips` never come back.
"""

import http.client
import multiprocessing
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fcntl import LOCK_EX, flock
from pathlib import Path

import torch
import torch.distributed as dist

STEP_S, NUM_STEPS = 0.1, 30
GAP_S = 2.0
TEXT = "It was the best of times, it was the worst of times, it was the age of wisdom. " * 2000


def _until(seconds: float) -> float:
    return time.monotonic() + seconds


def _outside(work: Callable[[], None]) -> None:
    """Does the work in a process that is no descendant of this one."""
    if os.fork() == 0:
        if os.fork() == 0:
            work()
        os._exit(0)
    os.wait()


def _server(seconds: float, *, reads: bool, gap_s: float = GAP_S) -> int:
    """The port of a server in a process of its own that takes, or gives, some bytes every `gap_s` for `seconds`."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        end_s, (client, _) = _until(seconds), listener.accept()
        while time.monotonic() < end_s:
            time.sleep(gap_s)
            if reads:
                client.recv(1 << 16)
            else:
                client.sendall(b"x" * 512)
        while reads and client.recv(1 << 20):
            pass

    _outside(serve)
    port = listener.getsockname()[1]
    listener.close()
    return int(port)


def upload(seconds: float) -> None:
    """A write of a few bytes every two seconds, as of a small chunk over a slow line."""
    port = _server(0.0, reads=True)
    with socket.create_connection(("127.0.0.1", port)) as line:
        end_s = _until(seconds)
        while time.monotonic() < end_s:
            line.sendall(b"x" * 512)
            time.sleep(GAP_S)


def upload_blocked(seconds: float) -> None:
    """A PUT to a server that takes its time: the rank sits in its send."""
    port = _server(seconds, reads=True)
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("PUT", "/checkpoint", body=b"x" * (16 << 20))
    connection.close()


def upload_thread(seconds: float) -> None:
    """The same in a pool's thread, for which the main thread waits without a time-out."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(upload_blocked, seconds).result()


def download(seconds: float) -> None:
    """A server that gives a little every two seconds."""
    port = _server(seconds, reads=False)
    with socket.create_connection(("127.0.0.1", port)) as line:
        while line.recv(1 << 16):
            pass


def download_silent(seconds: float) -> None:
    """A server that is silent until it gives everything: nothing of the rank goes on."""
    port = _server(seconds, reads=False, gap_s=seconds)
    with socket.create_connection(("127.0.0.1", port)) as line:
        while line.recv(1 << 16):
            pass


def save(seconds: float) -> None:
    """Parts of a checkpoint, each written through to a slow disk."""
    end_s, path = _until(seconds), Path(f"part-{os.getpid()}")
    while time.monotonic() < end_s:
        with path.open("wb") as file:
            file.write(os.urandom(128 << 10))
            file.flush()
            os.fsync(file.fileno())
        time.sleep(GAP_S)
    path.unlink()


def save_blocked(seconds: float) -> None:
    """A checkpoint through a pipe whose reader takes its time, as a mounted store does."""
    read, write = os.pipe()

    def take() -> None:
        os.close(write)
        end_s = _until(seconds)
        while time.monotonic() < end_s:
            time.sleep(GAP_S)
            os.read(read, 4096)
        while os.read(read, 1 << 20):
            pass

    _outside(take)
    os.close(read)
    with os.fdopen(write, "wb", buffering=0) as file:
        for _ in range(64):
            file.write(b"x" * (64 << 10))


def tokenise(seconds: float) -> None:
    """Work in one line after the other, with pauses: 2 cores are shared by everything here."""
    end_s = _until(seconds)
    while time.monotonic() < end_s:
        words = re.findall(r"\w+", TEXT)
        sorted(set(words))
        time.sleep(0.1)


def _tokenise_part(seconds: float) -> int:
    tokenise(seconds)
    return os.getpid()


def tokenise_pool(seconds: float) -> None:
    """The same in a child process, for which the main thread waits without a time-out."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        pool.map(_tokenise_part, [seconds])


def command(seconds: float) -> None:
    """A copy by another program, which waits for its own server."""
    subprocess.run(["sleep", str(seconds)], check=True)


def other_process(seconds: float) -> None:
    """An event that a process outside of the job's tree sets, by a semaphore that both share."""
    context = multiprocessing.get_context("fork")
    done = context.Semaphore(0)

    def release() -> None:
        time.sleep(seconds)
        done.release()

    _outside(release)
    done.acquire()


def file_lock(seconds: float) -> None:
    """A file lock that a process outside of the job's tree holds."""
    path = Path(f"lock-{os.getpid()}")
    ready, is_held = os.pipe()

    def hold() -> None:
        with path.open("w") as file:
            flock(file, LOCK_EX)
            os.write(is_held, b"x")
            time.sleep(seconds)

    _outside(hold)
    os.read(ready, 1)
    with path.open("w") as file:
        flock(file, LOCK_EX)
    path.unlink()


def stuck(seconds: float) -> None:
    """Never comes back: nobody is left to set the event."""
    del seconds
    threading.Event().wait()


def skips(seconds: float) -> None:
    """Never comes back: the barrier of its peers is left out, and the next call differs."""
    del seconds
    dist.all_reduce(torch.ones(64))


KINDS: dict[str, Callable[[float], None]] = {
    kind.__name__: kind
    for kind in (
        upload, upload_blocked, upload_thread, download, download_silent, save, save_blocked, tokenise, tokenise_pool,
        command, other_process, file_lock, stuck, skips,
    )
}  # fmt: skip


def main() -> None:
    """Some steps, the pause, some more steps."""
    kind, seconds = sys.argv[1], float(sys.argv[2])
    dist.init_process_group("gloo")
    weights = torch.ones(64)
    for step in range(2 * NUM_STEPS):
        if step == NUM_STEPS:
            if dist.get_rank() == 0:
                KINDS[kind](seconds)
            dist.barrier()
        time.sleep(STEP_S)
        dist.all_reduce(weights)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
