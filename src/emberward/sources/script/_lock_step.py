"""The one who moves values between the ranks of an examined script: an in-memory group, in lock-step, without torch.

[Note: lock-step]
Every rank is a process with one pipe to the lock-step server. A call is sent when it is made; its values come back
when all who
take part have called; a rank says when it begins to wait. Sends are eager here, so that the examination goes as far as
any transport could: whether the program needs that is for the judge, who assumes rendezvous. When every living rank
waits for a call that cannot complete, the program is stuck: that is a fact and no guess, since no rank can move.

[Note: the rest of a stuck program]
To say why, the judge needs to know what the ranks would have called next. From the moment at which the program is
stuck, or calls that meet differ, all calls return at once with made-up values ("free"). What is recorded from then on
explains the verdict; it cannot change that the program stops. A rank that raised, or that we refused something, leaves
no program to compare with: the others go on as far as they can without it, and the examination ends.
"""

import contextlib
import pickle
import time
from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from threading import Thread
from typing import Any

from emberward.events import misfits

FREE_LIMIT_S = 15.0
"""How long the ranks may run free, or go on after one of them raised."""
QUIET_S = 2.0
"""How long nothing may be heard before a program whose ranks call from several threads counts as stuck."""


class Halt(StrEnum):
    """Why the real part of an examination ended before every rank's program did."""

    STUCK = "stuck"
    MISMATCH = "mismatch"
    RAISED = "raised"
    REFUSED = "refused"
    TIME = "time"


@dataclass(slots=True)
class RankState:
    """What the lock-step server knows of one rank. `end` is its last message, None while it lives or when it died
    without one."""

    waits_for: int | None = None
    replied: set[int] = field(default_factory=set)
    is_living: bool = True
    has_threads: bool = False
    end: Mapping[str, Any] | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether its main thread waits for a call that has no values yet."""
        return self.waits_for is not None and self.waits_for not in self.replied


class LockStep:
    """Serves the ranks' pipes until all have ended. See [Note: lock-step]."""

    def __init__(self, pipes: Mapping[int, Connection], *, time_limit_s: float) -> None:
        self._pipes = dict(pipes)
        self._limit_s = time_limit_s
        self.ranks = {rank: RankState() for rank in pipes}
        self.halt: Halt | None = None
        self._counts: dict[tuple[Hashable, int], int] = {}
        self._open: dict[tuple[Hashable, int], dict[int, tuple[int, Hashable, Any, Any]]] = {}
        self._sent: dict[Hashable, deque[Any]] = {}
        self._wanted: dict[Hashable, deque[tuple[int, int]]] = {}
        self._halted_s = 0.0
        self._heard_s = 0.0
        self._ended_early: Halt | None = None
        self._replies: dict[int, SimpleQueue[bytes | None]] = {rank: SimpleQueue() for rank in pipes}
        for rank, pipe in pipes.items():
            # A rank that sends much reads nothing meanwhile: who serves it may not wait for it.
            Thread(target=_write_all, args=(pipe, self._replies[rank]), daemon=True).start()

    def run(self) -> None:
        """Serves until every rank has ended or the time is over. Blocks, at most the two limits together."""
        began_s = time.monotonic()
        while self._pipes:
            now_s = time.monotonic()
            end_s = began_s + self._limit_s
            if self.halt is not None:
                end_s = self._halted_s + FREE_LIMIT_S
            elif self._ended_early is not None:
                end_s = min(end_s, self._halted_s + FREE_LIMIT_S)
            if now_s >= end_s:
                break
            self.serve_once(min(end_s - now_s, QUIET_S))
            if self.halt is None and self._is_stuck():
                if self._ended_early is not None:
                    break
                self._free(Halt.STUCK)
        if self.halt is None and self._ended_early is not None:
            self.halt = self._ended_early
        elif self.halt is None and self._pipes:
            self.halt = Halt.TIME

    def serve_once(self, timeout_s: float) -> None:
        """Takes one message from each rank that has one; blocks at most `timeout_s` for the first."""
        ready = wait(list(self._pipes.values()), timeout=timeout_s)
        for rank, pipe in list(self._pipes.items()):
            if pipe in ready:
                self._heard_s = time.monotonic()
                self._read(rank, pipe)

    def _is_stuck(self) -> bool:
        living = [state for state in self.ranks.values() if state.is_living]
        if not living or not all(state.is_waiting for state in living):
            return False
        return time.monotonic() - self._heard_s >= QUIET_S or not any(state.has_threads for state in living)

    def _read(self, rank: int, pipe: Connection) -> None:
        state = self.ranks[rank]
        try:
            message = pickle.loads(pipe.recv_bytes())
        except (EOFError, OSError):
            self._gone(rank)
            return
        match message[0]:
            case "meet":
                self._meet(rank, *message[1:])
            case "send":
                self._send(rank, *message[1:])
            case "recv":
                self._recv(rank, *message[1:])
            case "wait":
                if message[2]:
                    state.waits_for = message[1]
                else:
                    state.has_threads = True
            case "end":
                state.end = message[1]
                state.is_living = False
                self._note_end(message[1]["status"])
            case other:
                raise ValueError(f"rank {rank} says {other!r}")

    def _note_end(self, status: str) -> None:
        early = {"raised": Halt.RAISED, "died": Halt.RAISED, "refused": Halt.REFUSED, "ours": Halt.REFUSED}.get(status)
        if early is not None and self.halt is None and self._ended_early is not Halt.RAISED:
            self._halted_s = self._halted_s or time.monotonic()
            self._ended_early = early

    def _gone(self, rank: int) -> None:
        self._pipes.pop(rank).close()
        self._replies[rank].put(None)
        state = self.ranks[rank]
        state.is_living = False
        if state.end is None:
            self._note_end("died")

    def _reply(self, rank: int, number: int, parts: Any) -> None:
        state = self.ranks[rank]
        state.replied.add(number)
        if state.waits_for == number:
            state.waits_for = None
        self._say(rank, ("done", number, parts))

    def _say(self, rank: int, message: object) -> None:
        if rank in self._pipes and self.ranks[rank].is_living:
            self._replies[rank].put(pickle.dumps(message))

    def _free(self, why: Halt) -> None:
        self.halt = why
        self._halted_s = time.monotonic()
        for rank in list(self._pipes):
            self._say(rank, ("free",))

    # -- calls -------------------------------------------------------------------------------------------------------

    def _meet(
        self, rank: int, number: int, key: Hashable, members: tuple[int, ...], sign: Hashable, sizes: Any, data: Any
    ) -> None:
        """One rank's part of a call of a group. `data` is ("all", part), ("each", one part a member) or None.

        `sizes` is what it gives to and expects of each member, None where the operation has no parts.
        """
        k = self._counts.get((key, rank), 0)
        self._counts[(key, rank)] = k + 1
        calls = self._open.setdefault((key, k), {})
        calls[rank] = (number, sign, sizes, data)
        if self.halt is not None:
            return
        if any(other[1] != sign for other in calls.values()):
            self._free(Halt.MISMATCH)
        elif len(calls) == len(members):
            del self._open[(key, k)]
            given, expected = zip(*(calls[other][2] for other in members), strict=True)
            if misfits(given, expected):
                self._free(Halt.MISMATCH)
                return
            for position, member in enumerate(members):
                parts = [_part(calls[other][3], position) for other in members]
                self._reply(member, calls[member][0], parts)

    def _send(self, rank: int, number: int, key: Hashable, data: Any) -> None:
        """An eager send on the channel `key`."""
        waiting = self._wanted.get(key)
        if waiting:
            receiver, wanted = waiting.popleft()
            self._reply(receiver, wanted, [data])
        else:
            self._sent.setdefault(key, deque()).append(data)
        self._reply(rank, number, [])

    def _recv(self, rank: int, number: int, key: Hashable) -> None:
        sent = self._sent.get(key)
        if sent:
            self._reply(rank, number, [sent.popleft()])
        else:
            self._wanted.setdefault(key, deque()).append((rank, number))


def _part(data: Any, position: int) -> Any:
    if data is None:
        return None
    kind, parts = data
    return parts if kind == "all" else parts[position]


def _write_all(pipe: Connection, messages: "SimpleQueue[bytes | None]") -> None:
    """Writes what comes until None; a rank that has gone is noticed where its pipe is read."""
    while (message := messages.get()) is not None:
        with contextlib.suppress(OSError):
            pipe.send_bytes(message)
