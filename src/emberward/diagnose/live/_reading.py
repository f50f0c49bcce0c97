"""What a process does, by its stacks and by what the kernel says of it."""

from collections.abc import Mapping
from dataclasses import replace

from emberward.diagnose import (
    Frame,
    LineOf,
    ProcessStacks,
    Reading,
    ThreadStack,
    class_of,
    code_frame,
    makes_call,
    may_act,
    read_process,
    user_frame,
)
from emberward.diagnose.live._motion import Motion, sits_in
from emberward.diagnose.live._process import ProcessFacts, ProcessState, WaitingIn
from emberward.diagnose.live._snapshot import RingFacts, Snapshot
from emberward.events import KEPT_BY, WAITING, HostState

_START = frozenset({"run", "_bootstrap", "_bootstrap_inner"})
_BY_CALL = {
    WaitingIn.NANOSLEEP: HostState.SLEEP,
    WaitingIn.CHILD: HostState.SUBPROCESS,
    WaitingIn.READ: HostState.FILE_READ,
    WaitingIn.OPEN: HostState.FILE_READ,
    WaitingIn.FUTEX: HostState.LOCK,
    WaitingIn.FUTEX_SHARED: HostState.LOCK,
    WaitingIn.FUTEX_TIMED: HostState.LOCK,
    WaitingIn.JOIN: HostState.LOCK,
    WaitingIn.FILE_LOCK: HostState.LOCK,
    WaitingIn.EVENT: HostState.LOCK,
}
_OPEN_TO_FACTS = frozenset({HostState.UNKNOWN, HostState.CPU_LOOP})
SILENT_HEART_S = 5.0
"""25 beats of the recorder's own thread, which runs whenever the interpreter's lock is free."""
_PEER_CALLS = frozenset({HostState.COLLECTIVE, HostState.P2P, HostState.BACKWARD})


class Reader:
    """Reads processes of one snapshot. Called for every process; see `read`."""

    def __init__(self, snapshot: Snapshot, motions: Mapping[int, Motion]) -> None:
        self._facts: dict[int, tuple[ProcessFacts, Motion | None]] = {}
        self._rings = {seen.process.pid: seen.ring for seen in snapshot.ranks.values() if seen.ring is not None}
        for rank, seen in snapshot.ranks.items():
            self._facts[seen.process.pid] = (seen.process, motions.get(rank))
            for child in seen.children:
                self._facts[child.pid] = (child, None)

    def read(self, process: ProcessStacks, line_of: LineOf) -> Reading:
        """What the process does. Where its stack leaves it open, the kernel's word counts."""
        reading = read_process(process, line_of)
        ring = self._rings.get(process.pid or -1)
        if ring is not None and ring.waits_for_device:
            return _for_device(reading, ring, line_of)
        if ring is not None and reading.kind is HostState.DEVICE_SYNC:
            # The recorder tells of a read that waits: on the CPU none does, whatever the text says.
            reading = replace(reading, kind=HostState.UNKNOWN)
        if reading.kind is HostState.EXIT:
            reading = replace(read_process(self._that_keep(process), line_of), process=process)
        facts, motion = self._facts.get(process.pid or -1, (None, None))
        if facts is not None and ring is not None and reading.kind not in WAITING and _keeps_interpreter(facts, ring):
            return replace(reading, kind=HostState.INTERPRETER)
        if facts is None or not (reading.kind in _OPEN_TO_FACTS or self._only_builds(reading, facts)):
            return reading
        if motion is not None and motion.is_main_busy:
            return replace(reading, kind=HostState.CPU_LOOP)
        main = facts.main
        if main is not None and main.state is ProcessState.RUNNING:
            return replace(reading, kind=HostState.CPU_LOOP)
        kind = _BY_CALL.get(sits_in(facts) or WaitingIn.OTHER)
        if main is not None and main.waiting_in in (WaitingIn.READ, WaitingIn.WRITE) and "pipe" in (main.channel or ""):
            # At the other end of a pipe is a process.
            kind = HostState.SUBPROCESS
        return reading if kind is None else replace(reading, kind=kind)

    def _that_keep(self, process: ProcessStacks) -> ProcessStacks:
        """The process with its main thread and the first thread that keeps it, where its ring says which those are."""
        ring = self._rings.get(process.pid or -1)
        kept = frozenset() if ring is None else kept_by(ring)
        found = [t for t in process.threads if t.os_thread_id in kept and code_frame(t.frames) is not None]
        main = () if process.main is None else (process.main,)
        return replace(process, threads=(*main, *found[:1])) if found else process

    def _only_builds(self, reading: Reading, facts: ProcessFacts) -> bool:
        """Whether a rank computes in a part of torch that calls its peers at other times: ``fully_shard`` at the start.

        It is in none of torch's calls, and its ring holds none that is open.
        """
        ring = self._rings.get(facts.pid)
        if reading.kind is not HostState.COLLECTIVE or ring is None or _has_open(ring) or makes_call(reading.frames):
            return False
        return facts.main is not None and facts.main.state is ProcessState.RUNNING


def kept_by(ring: RingFacts) -> frozenset[int]:
    """The threads that keep the process of a rank whose main thread has left, by the system's numbers."""
    left = ring.moment("main_exited")
    if left is None or left.text is None or not left.text.startswith(KEPT_BY):
        return frozenset()
    return frozenset(map(int, left.text.removeprefix(KEPT_BY).split(", ")))


def _keeps_interpreter(facts: ProcessFacts, ring: RingFacts) -> bool:
    """Whether the main thread sits in a system call, and yet the recorder's thread has not come to run for long."""
    main = facts.main
    is_idle = main is not None and main.state is ProcessState.SLEEPING and ring.moment("main_exited") is None
    return is_idle and (ring.heartbeat_age_s or 0.0) > SILENT_HEART_S


def _for_device(reading: Reading, ring: RingFacts, line_of: LineOf) -> Reading:
    """The reading of a rank whose host waits for a device: at the line of the call that has not ended.

    The stack names the line that reads a value; what it waits for was launched before.
    """
    call = next((e for e in ring.flight.get("entries", ()) if e.get("ring_number") == ring.blocked_record), None)
    kind = HostState.P2P if call is not None and call.get("is_p2p") else HostState.COLLECTIVE
    rows = [] if call is None else call.get("frames", ())
    if ring.blocked_record is None or not rows:
        return replace(reading, kind=kind)
    frames = tuple(Frame(function=row["name"], file=row["filename"], line=row["line"]) for row in rows)
    user = user_frame(frames) or frames[-1]
    line = line_of(user)
    return replace(
        reading,
        kind=kind,
        site=user.site,
        function=user.function,
        source_line=None if line is None else line.strip()[:120],
        frames=frames,
        inner=None,
    )


def _has_open(ring: RingFacts) -> bool:
    entries = ring.flight.get("entries", ())
    return ring.blocked_record is not None or any(isinstance(e, dict) and not e.get("retired") for e in entries)


def other_threads(process: ProcessStacks | None, line_of: LineOf) -> list[tuple[ThreadStack, HostState]]:
    """The threads beside the main one that may do something for the program, and what each does."""
    if process is None:
        return []
    main = process.main
    found = []
    for thread in process.threads:
        if thread is not main and may_act(thread.frames):
            found.append((thread, class_of(_without_start(thread), line_of)))
    return found


def _without_start(thread: ThreadStack) -> ThreadStack:
    """The thread without the frames of `threading` that began it: what is left of that module is a wait."""
    frames = thread.frames
    while frames and frames[-1].function in _START and frames[-1].file.endswith("threading.py"):
        frames = frames[:-1]
    return replace(thread, frames=frames)


def peer_thread(process: ProcessStacks | None, line_of: LineOf) -> Frame | None:
    """The user's line of a thread beside the main one that waits for a peer; None when none does."""
    for thread, kind in other_threads(process, line_of):
        if kind in _PEER_CALLS:
            return user_frame(thread.frames) or code_frame(thread.frames)
    return None
