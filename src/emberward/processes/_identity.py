"""Processes of this host, named so that a reused pid is never taken for the one that died."""

import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass

import psutil

MARKER = "EMBERWARD_LAUNCH"
CREATED_TOLERANCE_S = 0.01
END_POLL_S = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    """A process: its pid and the time it was created, in seconds since 1970, as psutil tells it."""

    pid: int
    created: float


def identify(pid: int, *, or_zombie: bool = False) -> ProcessId | None:
    """The process that has `pid` now, or None when there is none, or only its zombie, unless `or_zombie`."""
    try:
        process = psutil.Process(pid)
        if not or_zombie and process.status() == psutil.STATUS_ZOMBIE:
            return None
        return ProcessId(pid=pid, created=process.create_time())
    except psutil.Error:
        return None


def is_alive(process: ProcessId) -> bool:
    """Whether that very process still runs; a zombie and a reused pid do not count."""
    now = identify(process.pid)
    return now is not None and abs(now.created - process.created) <= CREATED_TOLERANCE_S


def send(process: ProcessId, number: signal.Signals) -> bool:
    """Sends the signal to that very process; whether it was there to take it."""
    if not is_alive(process):
        return False
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        return False
    return True


def descendants(root: ProcessId) -> set[ProcessId]:
    """All living processes below `root`, without itself; empty when it is gone."""
    if not is_alive(root):
        return set()
    found = set()
    try:
        children = psutil.Process(root.pid).children(recursive=True)
    except psutil.Error:
        return set()
    for child in children:
        try:
            found.add(ProcessId(pid=child.pid, created=child.create_time()))
        except psutil.Error:
            continue
    return found


def marked(value: str) -> set[ProcessId]:
    """All living processes of ours whose environment has MARKER=`value`: also those whose parents are gone.

    Reads each process's environment once, about 0.1 ms a process. Processes that may not be read are left out.
    """
    found = set()
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARKER) == value and process.status() != psutil.STATUS_ZOMBIE:
                found.add(ProcessId(pid=process.pid, created=process.create_time()))
        except (psutil.Error, OSError):
            continue
    found.discard(ProcessId(pid=os.getpid(), created=psutil.Process().create_time()))
    return found


def end(processes: Iterable[ProcessId], *, limit_s: float = 5.0) -> set[ProcessId]:
    """Sends SIGKILL to each, waits up to `limit_s` until they are gone, and returns those that are still there.

    It never reaps: the exit code of a child belongs to the ``Popen`` that started it, which would read 0 otherwise.
    """
    killed = [process for process in processes if send(process, signal.SIGKILL)]
    until_s = time.monotonic() + limit_s
    while (left := {process for process in killed if is_alive(process)}) and time.monotonic() < until_s:
        time.sleep(END_POLL_S)
    return left
