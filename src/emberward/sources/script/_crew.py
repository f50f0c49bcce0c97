"""The one who moves values between the ranks of an examined script: an in-memory group, in lock-step, without torch.

[Note: lock-step]
Every rank is a process with one pipe to the crew. A call is sent when it is made; its values come back when all who
take part have called; a rank says when it begins to wait. Sends are eager here, so that the examination goes as far as
any transport could: whether the program needs that is for the judge, who assumes rendezvous. When every living rank
waits for a call that cannot complete, the program is stuck: that is a fact and no guess, since no rank can move.

[Note: the rest of a stuck program]
To say why, the judge needs to know what the ranks would have called next. From the moment at which the program is
stuck, or calls that meet differ, or a rank raises, all calls return at once with made-up values ("free"). What is
recorded from then on explains the verdict; it cannot change that the program stops.
"""

import pickle
import time
from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from multiprocessing.connection import Connection, wait
from typing import Any

FREE_LIMIT_S = 15.0
"""How long the ranks may run free."""


class Halt(StrEnum):
    """Why the real part of an examination ended before every rank's program did."""

    STUCK = "stuck"
    MISMATCH = "mismatch"
    RAISED = "raised"
    TIME = "time"


@dataclass(slots=True)
class RankState:
    """What the crew knows of one rank. `end` is its last word, None while it lives or when it died without one."""

    waits_for: int | None = None
    replied: set[int] = field(default_factory=set)
    is_living: bool = True
    end: Mapping[str, Any] | None = None


class Crew:
    """Serves the ranks' pipes until all have ended. See [Note: lock-step]."""

    def __init__(self, pipes: Mapping[int, Connection], *, time_limit_s: float) -> None:
        self._pipes = dict(pipes)
        self._limit_s = time_limit_s
        self.ranks = {rank: RankState() for rank in pipes}
        self.halt: Halt | None = None
        self._counts: dict[tuple[Hashable, int], int] = {}
        self._open: dict[tuple[Hashable, int], dict[int, tuple[int, Hashable, Any]]] = {}
        self._sent: dict[Hashable, deque[Any]] = {}
        self._wanted: dict[Hashable, deque[tuple[int, int]]] = {}
        self._halted_s = 0.0

    def run(self) -> None:
        """Serves until every rank has ended or the time is over. Blocks, at most the two limits together."""
        began_s = time.monotonic()
        while self._pipes:
            now_s = time.monotonic()
            end_s = began_s + self._limit_s if self.halt is None else self._halted_s + FREE_LIMIT_S
            if now_s >= end_s:
                if self.halt is None:
                    self.halt = Halt.TIME
                return
            self.serve_once(end_s - now_s)
            if self.halt is None and self._is_stuck():
                self._free(Halt.STUCK)

    def serve_once(self, timeout_s: float) -> None:
        """Takes one message from each rank that has one; blocks at most `timeout_s` for the first."""
        ready = wait(list(self._pipes.values()), timeout=timeout_s)
        for rank, pipe in list(self._pipes.items()):
            if pipe in ready:
                self._read(rank, pipe)

    def _is_stuck(self) -> bool:
        living = [state for state in self.ranks.values() if state.is_living]
        return bool(living) and all(
            state.waits_for is not None and state.waits_for not in state.replied for state in living
        )

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
                state.waits_for = message[1]
            case "end":
                state.end = message[1]
                state.is_living = False
                if message[1]["status"] == "raised" and self.halt is None:
                    self._free(Halt.RAISED)
            case other:
                raise ValueError(f"rank {rank} says {other!r}")

    def _gone(self, rank: int) -> None:
        self._pipes.pop(rank).close()
        state = self.ranks[rank]
        state.is_living = False
        if state.end is None and self.halt is None:
            self._free(Halt.RAISED)

    def _reply(self, rank: int, number: int, parts: Any) -> None:
        state = self.ranks[rank]
        state.replied.add(number)
        if state.waits_for == number:
            state.waits_for = None
        self._say(rank, ("done", number, parts))

    def _say(self, rank: int, message: object) -> None:
        pipe = self._pipes.get(rank)
        if pipe is not None and self.ranks[rank].is_living:
            try:
                pipe.send_bytes(pickle.dumps(message))
            except OSError:
                self._gone(rank)

    def _free(self, why: Halt) -> None:
        self.halt = why
        self._halted_s = time.monotonic()
        for rank in list(self._pipes):
            self._say(rank, ("free",))

    # -- calls -------------------------------------------------------------------------------------------------------

    def _meet(self, rank: int, number: int, key: Hashable, members: tuple[int, ...], sign: Hashable, data: Any) -> None:
        """One rank's part of a call of a group. `data` is ("all", part), ("each", one part a member) or None."""
        k = self._counts.get((key, rank), 0)
        self._counts[(key, rank)] = k + 1
        calls = self._open.setdefault((key, k), {})
        calls[rank] = (number, sign, data)
        if self.halt is not None:
            return
        if any(other[1] != sign for other in calls.values()):
            self._free(Halt.MISMATCH)
        elif len(calls) == len(members):
            del self._open[(key, k)]
            for position, member in enumerate(members):
                parts = [_part(calls[other][2], position) for other in members]
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
