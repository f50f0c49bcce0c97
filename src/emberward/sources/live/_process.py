"""What the kernel tells about a process: its state, its threads, what it has burned, read and written.

[Note: motion]
Two readings of one process some seconds apart tell what a stack cannot: a rank whose CPU time or bytes move is alive,
whatever its stack looks like, and one that sits in the same untimed wait with all its threads is not going anywhere by
itself. Source: proc(5), Linux 6; ``/proc/PID/syscall`` and ``io`` need the right to trace the process.
"""

import os
import re
import struct
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from emberward.diagnose.live import ProcessFacts, ProcessState, ThreadFacts, WaitingIn

PROC = Path("/proc")
MAX_THREADS = 64
"""Most threads of a process whose state is read."""
MAX_CHILDREN = 64
"""Most descendants of a rank that are read."""
MAX_DEPTH = 6
"""Deepest descendant of a rank that is read."""


_STATES = {
    "R": ProcessState.RUNNING,
    "S": ProcessState.SLEEPING,
    "I": ProcessState.SLEEPING,
    "D": ProcessState.DISK,
    "T": ProcessState.STOPPED,
    "t": ProcessState.TRACED,
    "Z": ProcessState.ZOMBIE,
    "X": ProcessState.GONE,
}
# System call numbers of x86-64 (linux/arch/x86/entry/syscalls/syscall_64.tbl) and of arm64 (asm-generic/unistd.h).
_CALLS_X86 = {
    0: WaitingIn.READ, 17: WaitingIn.READ, 19: WaitingIn.READ, 1: WaitingIn.WRITE, 18: WaitingIn.WRITE,
    20: WaitingIn.WRITE, 74: WaitingIn.WRITE, 75: WaitingIn.WRITE, 2: WaitingIn.OPEN, 257: WaitingIn.OPEN,
    35: WaitingIn.NANOSLEEP, 230: WaitingIn.NANOSLEEP, 61: WaitingIn.CHILD, 247: WaitingIn.CHILD, 7: WaitingIn.POLL,
    271: WaitingIn.POLL, 23: WaitingIn.POLL, 270: WaitingIn.POLL, 232: WaitingIn.POLL, 281: WaitingIn.POLL,
    202: WaitingIn.FUTEX, 72: WaitingIn.FILE_LOCK, 73: WaitingIn.FILE_LOCK,
}  # fmt: skip
_CALLS_ARM = {
    63: WaitingIn.READ, 65: WaitingIn.READ, 67: WaitingIn.READ, 64: WaitingIn.WRITE, 66: WaitingIn.WRITE,
    68: WaitingIn.WRITE, 82: WaitingIn.WRITE, 83: WaitingIn.WRITE, 56: WaitingIn.OPEN, 115: WaitingIn.NANOSLEEP,
    101: WaitingIn.NANOSLEEP, 260: WaitingIn.CHILD, 95: WaitingIn.CHILD, 73: WaitingIn.POLL, 72: WaitingIn.POLL,
    22: WaitingIn.POLL, 98: WaitingIn.FUTEX, 25: WaitingIn.FILE_LOCK, 32: WaitingIn.FILE_LOCK,
}  # fmt: skip


_EPOLL_WAITS = {"x86_64": (232, 281), "aarch64": (22,)}
_FOR_EVER = 0xFFFFFFFF
"""A time-out of -1 as an int."""
_FUTEX_PRIVATE = 128
"""FUTEX_PRIVATE_FLAG of linux/futex.h."""
_RESTARTS = {"x86_64": 219, "aarch64": 128}
_TIMED_CHANNELS = {"futex": WaitingIn.FUTEX_TIMED, "nanosleep": WaitingIn.NANOSLEEP, "poll": WaitingIn.POLL}
"""By a part of the name of the kernel's function; source: kernel/futex/waitwake.c, time/hrtimer.c, fs/select.c."""
_CLOCK_NANOSLEEP = {"x86_64": 230, "aarch64": 115}
_TIMER_ABSTIME = 1
_CLOCKS = (0, 1)
"""CLOCK_REALTIME and CLOCK_MONOTONIC of linux/time.h, which read the same in every process."""


def _text(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace")
    except (OSError, ValueError):
        return None


def _stat(text: str | None) -> list[str] | None:
    """The fields of a stat line from the state on; None when it is no such line."""
    if text is None:
        return None
    fields = text[text.rfind(")") + 1 :].split()
    return fields if len(fields) >= 20 else None


def waiting_in(text: str | None, *, machine: str, tids: Sequence[int] = ()) -> WaitingIn | None:
    """The kind of system call that a line of ``/proc/PID/syscall`` names; None while running or when unreadable.

    `tids`: the threads of the process.
    """
    words = (text or "").split()
    if not words or not words[0].lstrip("-").isdigit():
        return None
    number = int(words[0])
    found = (_CALLS_ARM if machine == "aarch64" else _CALLS_X86).get(number, WaitingIn.OTHER)
    # futex(address, operation, value, timeout, ...): a null time-out waits for ever, and without FUTEX_PRIVATE_FLAG
    # another process may wake it. Source: futex(2). pthread_join waits so for the word that holds the thread's number
    # until the kernel clears it at the thread's end. Source: set_tid_address(2), glibc nptl/pthread_join_common.c.
    if found is WaitingIn.FUTEX and len(words) > 4:
        if words[4] != "0x0":
            return WaitingIn.FUTEX_TIMED
        if int(words[2], 16) & _FUTEX_PRIVATE:
            return found
        return WaitingIn.JOIN if int(words[3], 16) in tids else WaitingIn.FUTEX_SHARED
    return found


def _begun_again(text: str | None, channel: str, *, machine: str) -> WaitingIn | None:
    """What a thread waits in whose wait with a time-out was interrupted and goes on; None in any other call.

    The kernel then calls it restart_syscall, whoever looked at the stack stopped it. Source: restart_syscall(2).
    """
    words = (text or "").split()
    if not words or not words[0].isdigit() or int(words[0]) != _RESTARTS.get(machine):
        return None
    return next((call for name, call in _TIMED_CHANNELS.items() if name in channel), None)


def _waits_for_itself(folder: Path, text: str | None, *, machine: str) -> bool:
    """Whether a thread is in ``epoll_wait(epfd, events, maxevents, -1)`` on one file alone. Source: proc(5), fdinfo."""
    words = (text or "").split()
    if len(words) < 5 or not words[0].isdigit() or int(words[0]) not in _EPOLL_WAITS.get(machine, ()):
        return False
    watched = _text(folder / "fdinfo" / str(int(words[1], 16))) or ""
    return int(words[4], 16) & _FOR_EVER == _FOR_EVER and watched.count("tfd:") == 1


def _wakes_in_s(folder: Path, text: str | None, *, machine: str) -> float | None:
    """Seconds until ``clock_nanosleep(clock, TIMER_ABSTIME, until, ...)`` ends; None of any other call.

    ``time.sleep`` of Python 3.11 and newer makes that call, so that a signal does not lengthen it. Where a sleep is
    given by its length alone, nobody tells how much is left. Source: clock_nanosleep(2), proc(5), mem.
    """
    words = (text or "").split()
    if len(words) < 4 or not words[0].isdigit() or int(words[0]) != _CLOCK_NANOSLEEP.get(machine):
        return None
    clock, flags, until = (int(word, 16) for word in words[1:4])
    if clock not in _CLOCKS or not flags & _TIMER_ABSTIME:
        return None
    try:
        with (folder / "mem").open("rb", buffering=0) as memory:
            memory.seek(until)
            seconds, nanoseconds = struct.unpack("qq", memory.read(16))
    except (OSError, OverflowError, struct.error):
        return None
    left_s: float = seconds + nanoseconds / 1e9 - time.clock_gettime(clock)
    return max(left_s, 0.0)


def _io(folder: Path) -> dict[str, int]:
    text = _text(folder / "io") or ""
    return {name: int(value) for name, value in re.findall(r"^(\w+): (\d+)$", text, re.MULTILINE)}


def _switches(folder: Path) -> int | None:
    found = re.search(r"^voluntary_ctxt_switches:\s+(\d+)$", _text(folder / "status") or "", re.MULTILINE)
    return None if found is None else int(found[1])


def _threads(folder: Path, machine: str) -> tuple[ThreadFacts, ...]:
    try:
        tids = sorted(int(name) for name in os.listdir(folder / "task") if name.isdigit())  # noqa: PTH208 (names only)
    except OSError:
        return ()
    out = []
    for tid in tids[:MAX_THREADS]:
        own = folder / "task" / str(tid)
        fields = _stat(_text(own / "stat"))
        if fields is None:
            continue
        channel = (_text(own / "wchan") or "").strip()
        call = _text(own / "syscall")
        is_event = _waits_for_itself(folder, call, machine=machine)
        out.append(
            ThreadFacts(
                tid=tid,
                state=_STATES.get(fields[0], ProcessState.UNKNOWN),
                cpu_ticks=int(fields[11]) + int(fields[12]),
                waiting_in=WaitingIn.EVENT
                if is_event
                else _begun_again(call, channel, machine=machine) or waiting_in(call, machine=machine, tids=tids),
                channel=channel if channel not in ("", "0") else None,
                read_bytes=_io(own).get("rchar"),
                switches=_switches(own),
                wakes_in_s=_wakes_in_s(own, call, machine=machine),
            )
        )
    return tuple(out)


def read_process_facts(pid: int, *, proc: Path = PROC, machine: str | None = None) -> ProcessFacts:
    """What the kernel tells about `pid` now; state GONE when there is no such process. Never raises or blocks long."""
    folder = proc / str(pid)
    fields = _stat(_text(folder / "stat"))
    if fields is None:
        return ProcessFacts(pid=pid, state=ProcessState.GONE)
    state = _STATES.get(fields[0], ProcessState.UNKNOWN)
    io = _io(folder)
    command = (_text(folder / "cmdline") or "").replace("\0", " ").strip()
    ended = state is ProcessState.ZOMBIE and len(fields) > 49
    return ProcessFacts(
        pid=pid,
        state=state,
        start_ticks=int(fields[19]),
        parent_pid=int(fields[1]),
        exit_code=_exit_code(int(fields[49])) if ended else None,
        cpu_ticks=int(fields[11]) + int(fields[12]),
        read_bytes=io.get("rchar"),
        written_bytes=io.get("wchar"),
        threads=() if state is ProcessState.ZOMBIE else _threads(folder, machine or os.uname().machine),
        command=command[:200] or None,
    )


def settled_switches(pid: int, *, proc: Path = PROC) -> dict[int, int]:
    """By thread, how often it has waited; of those that wait now. Never raises.

    Whoever reads a stack holds the process, and its threads then go back into their waits: one that is not there yet
    would seem to have returned from its system call.
    """
    found = {}
    for thread in _threads(proc / str(pid), ""):
        if thread.state in (ProcessState.SLEEPING, ProcessState.DISK) and thread.switches is not None:
            found[thread.tid] = thread.switches
    return found


def is_running(pid: int, *, start_ticks: int | None, proc: Path = PROC) -> bool:
    """Whether that very process is there and no zombie: one small file, where `read_process_facts` reads dozens."""
    fields = _stat(_text(proc / str(pid) / "stat"))
    if fields is None or _STATES.get(fields[0]) in (ProcessState.ZOMBIE, ProcessState.GONE):
        return False
    return start_ticks is None or int(fields[19]) == start_ticks


def _exit_code(status: int) -> int:
    """A wait status as Python gives it: the code, or minus the signal's number."""
    return -(status & 0x7F) if status & 0x7F else status >> 8


def parents(*, proc: Path = PROC) -> dict[int, int]:
    """Every process's parent."""
    out: dict[int, int] = {}
    try:
        names = os.listdir(proc)  # noqa: PTH208 (names only)
    except OSError:
        return out
    for name in names:
        if name.isdigit():
            fields = _stat(_text(proc / name / "stat"))
            if fields is not None:
                out[int(name)] = int(fields[1])
    return out


def descendants(pid: int, parent_of: Mapping[int, int], *, stop: Iterable[int] = ()) -> tuple[int, ...]:
    """The processes below `pid`, parents first, at most `MAX_CHILDREN`; those of `stop` and below are left out."""
    children: dict[int, list[int]] = {}
    for child, parent in parent_of.items():
        children.setdefault(parent, []).append(child)
    avoided = set(stop)
    out: list[int] = []
    front = [pid]
    for _ in range(MAX_DEPTH):
        front = [c for p in front for c in sorted(children.get(p, ())) if c not in avoided]
        out += front
    return tuple(out[:MAX_CHILDREN])


def environment_of(pid: int, names: Iterable[str], *, proc: Path = PROC) -> dict[str, str]:
    """The values of `names` in the environment with which another process was started; empty when not readable."""
    text = _text(proc / str(pid) / "environ") or ""
    pairs = (item.partition("=") for item in text.split("\0"))
    wanted = set(names)
    return {key: value for key, _, value in pairs if key in wanted}
