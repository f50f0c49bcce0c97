"""One rank's calls in the order in which its threads made them, and the events that follow from them.

[Note: what becomes an event]
A call that blocks the host, or whose wait is the thread's very next act, sits on the host's lane. Any other call sits
on a communicator's lane, with `after` naming the thread's last host event before it; the wait for it is a `Wait` on
the lane of the thread that waits. A second wait for the same call waits for nothing and leaves no event.

[Note: lanes of transfers]
On NCCL a single send or receive runs on a stream that the two ranks share, in both directions, and a batch runs on
the group's own stream (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, pointToPoint, torch 2.13). On gloo each
(direction, peer, tag) is a queue of its own, batch or not.
"""

import contextlib
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from emberward.events import (
    Barrier,
    Body,
    Collective,
    Event,
    GroupCreate,
    HostSync,
    Lane,
    LaneKind,
    Phase,
    Recv,
    Ref,
    Send,
    Site,
    State,
    SyncKind,
    Wait,
)

DEVICE = Lane(kind=LaneKind.STREAM, label="device")
"""Where a rank computes. A read of a value waits for it alone: transfers that nobody waited for may be under way."""
LANE_NAME = "lane "
"""How the name of a thread of `emberward.lanes` begins; the rest is the lane's label in a trace."""
HostRead = Callable[[str, Any], list[float]]
"""Gives the host a small tensor's values, flat; the name says what is decided by them."""


class Transport(StrEnum):
    """Which rules say what shares a lane. See [Note: lanes of transfers]."""

    GLOO = "gloo"
    NCCL = "nccl"


@dataclass(frozen=True, slots=True)
class Call:
    """One call on a tape, to be named when it is waited for."""

    number: int


@dataclass(frozen=True, slots=True)
class Note:
    """One act of a thread. `waited`: the number of the call that it waits for, None when it is a call itself; when such
    a wait does not block, the device's stream waits.
    `follows`: it is neither; what the thread does next comes after that note of another thread.

    Times are nanoseconds of the monotonic clock, None where nobody measured.
    """

    thread: int
    site: Site | None
    phase: Phase
    body: Body | None
    is_blocking: bool
    waited: int | None
    issued_ns: int | None = None
    started_ns: int | None = None
    completed_ns: int | None = None
    state: State | None = None
    follows: int | None = None


class Tape:
    """Collects the calls of rank `rank`. Threads may share it; no method blocks or raises for what is recorded."""

    def __init__(self, rank: int, *, find_site: Callable[[], Site | None], transport: Transport) -> None:
        self.rank = rank
        self.transport = transport
        self._find_site = find_site
        self._phase = Phase()
        self._notes: list[Note] = []
        self._waited: set[int] = set()
        self._threads: dict[int, int] = {}
        self._names: dict[int, str] = {}
        self._newest: dict[int, int] = {}
        self._followed: dict[tuple[int, int], int] = {}
        self._lock = threading.Lock()
        self._num_batches = 0
        self._played: int | None = None
        self.not_recorded: dict[str, None] = {}
        """Communication that was made and is not on the tape, each kind once, in the order seen."""

    def __len__(self) -> int:
        return len(self._notes)

    def mark(self, phase: Phase) -> None:
        """What follows belongs to `phase`."""
        self._phase = phase

    def next_batch(self) -> int:
        """The number of the next batch of sends and receives."""
        with self._lock:
            self._num_batches += 1
            return self._num_batches - 1

    @contextlib.contextmanager
    def on_thread(self, number: int) -> Iterator[None]:
        """What this thread does while open is noted as the `number`-th's, where one plays several."""
        before, self._played = self._played, number
        try:
            yield
        finally:
            self._played = before

    def call(self, body: Body, *, is_blocking: bool) -> Call:
        """Takes a call that the current thread makes now; gives what names it in `wait`."""
        return Call(self._note(body, is_blocking=is_blocking, waited=None))

    def noting_reads(self, read: HostRead) -> HostRead:
        """`read`, which takes a value from the device to the host, with a note of each time that it does."""

        def noted(name: str, tensor: Any) -> list[float]:
            self.call(HostSync(kind=SyncKind.ITEM, lane=DEVICE), is_blocking=True)
            return read(name, tensor)

        return noted

    def wait(self, call: Call) -> None:
        """Takes the current thread's wait for `call`. See [Note: what becomes an event]."""
        if call.number not in self._waited and not self._notes[call.number].is_blocking:
            self._waited.add(call.number)
            self._note(None, is_blocking=True, waited=call.number)

    # -- order between threads ---------------------------------------------------------------------------------------

    def point(self) -> int | None:
        """The number of the calling thread's last note, for `follow` in another thread; None before its first."""
        with self._lock:
            return self._newest.get(self._thread())

    def follow(self, point: int | None) -> None:
        """Notes that what the calling thread does from now on comes after `point` of another thread."""
        if point is None:
            return
        with self._lock:
            own, other = self._thread(), self._notes[point].thread
            is_new = own != other and self._followed.get((own, other), -1) < point
            if is_new:
                self._followed[own, other] = point
        if is_new:
            self._note(None, is_blocking=True, waited=None, follows=point)

    def calls(self, *, first: int = 0, end: int | None = None) -> Iterator[tuple[Body, Site | None, Phase]]:
        """Yields the calls among the notes from number `first` up to `end`, in the order in which they were made."""
        for note in self._notes[first:end]:
            if note.body is not None:
                yield note.body, note.site, note.phase

    # -- repeating what was noted ------------------------------------------------------------------------------------

    def notes(self, first: int) -> list[Note]:
        """The notes from number `first` on."""
        return self._notes[first:]

    def since(self, first: int) -> tuple[Note, ...]:
        """The notes from number `first` on for `repeat_all`: of no phase, waits counted from `first`."""
        return tuple(
            replace(note, phase=Phase(), waited=None if note.waited is None else note.waited - first)
            for note in self._notes[first:]
        )

    def open_calls(self, first: int) -> list[Note]:
        """The calls from number `first` on for which nobody has waited yet."""
        numbered = enumerate(self._notes[first:], start=first)
        return [note for number, note in numbered if not (note.is_blocking or number in self._waited)]

    def drop(self, first: int) -> None:
        """Forgets the notes from number `first` on; nobody may wait for one of them any more."""
        self._waited.difference_update(range(first, len(self._notes)))
        del self._notes[first:]

    def repeat_all(self, notes: Sequence[Note]) -> None:
        """Notes again what `since` gave, in the phase that it is now."""
        first = len(self._notes)
        for note in notes:
            self.repeat(note, waited=None if note.waited is None else first + note.waited)

    def repeat(self, note: Note, *, waited: int | None) -> None:
        """Notes `note` again, in the phase that it is now, as a wait for the call `waited` if that is not None."""
        if waited is not None:
            self._waited.add(waited)
        self._notes.append(Note(note.thread, note.site, self._phase, note.body, note.is_blocking, waited))

    def last_site(self) -> Site | None:
        """Where the last call was made."""
        return self._notes[-1].site if self._notes else None

    def _thread(self) -> int:
        """The calling thread's number; the lock is held."""
        if self._played is not None:
            return self._played
        ident = threading.get_ident()
        found = self._threads.get(ident)
        if found is None:
            found = self._threads[ident] = len(self._threads)
            name = threading.current_thread().name
            if name.startswith(LANE_NAME):
                self._names[found] = name.removeprefix(LANE_NAME)
        return found

    def _note(self, body: Body | None, *, is_blocking: bool, waited: int | None, follows: int | None = None) -> int:
        site = self._find_site()
        with self._lock:
            thread = self._thread()
            note = Note(thread, site, self._phase, body, is_blocking, waited, follows=follows)
            self._notes.append(note)
            self._newest[thread] = len(self._notes) - 1
            return len(self._notes) - 1

    def events(self) -> tuple[Event, ...]:
        """Everything so far as events."""
        return tuple(event for event in self._events() if event is not None)

    def numbers(self) -> list[int]:
        """For each event of `events` the number of its note."""
        return [number for number, event in enumerate(self._events()) if event is not None]

    def _events(self) -> "list[Event | None]":
        return events_of(list(self._notes), self.rank, self.transport, names=self._names)


def events_of(
    notes: Sequence[Note],
    rank: int,
    transport: Transport,
    *,
    folds_waits: bool = True,
    names: Mapping[int, str] | None = None,
) -> list[Event | None]:
    """For each note its event, None where it leaves none. See [Note: what becomes an event].

    Without `folds_waits` every wait that the program makes itself is an event, with its times. `names`: labels of
    threads by number, where they have one.
    """
    following: dict[int, Note] = {}
    last: dict[int, int] = {}
    for number, note in enumerate(notes):
        if note.thread in last:
            following[last[note.thread]] = note
        last[note.thread] = number
    writer = _Writer(rank, transport, names or {})
    if not folds_waits:
        following = {}
    return [writer.write(number, note, following.get(number)) for number, note in enumerate(notes)]


class _Writer:
    """Turns notes into events, one after the other."""

    def __init__(self, rank: int, transport: Transport, names: Mapping[int, str]) -> None:
        self.rank = rank
        self.transport = transport
        self._names = names
        self._hosts: list[Ref | None] = []
        """For each note the last host event of its thread then."""
        self._refs: dict[int, Ref] = {}
        self._folded: set[int] = set()
        self._heads: dict[Lane, int] = {}
        self._last_host: dict[int, Ref] = {}
        self._lanes: dict[Hashable, Lane] = {}

    def write(self, number: int, note: Note, following: Note | None) -> Event | None:
        """The event of a note, if it has one. Notes come in their order."""
        event = self._write(number, note, following)
        self._hosts.append(self._last_host.get(note.thread))
        return event

    def _write(self, number: int, note: Note, following: Note | None) -> Event | None:
        if note.follows is not None:
            before = self._hosts[note.follows]
            return None if before is None else self._put(self._host(note.thread), Wait(on=before), note, after=())
        if note.waited is not None:
            if note.waited in self._folded:
                return None
            if not note.is_blocking:
                return self._put(DEVICE, Wait(on=self._refs[note.waited]), note, after=())
            return self._put(self._host(note.thread), Wait(on=self._refs[note.waited]), note, after=())
        body = note.body
        assert body is not None, "a note that waits for nothing is a call"
        is_next = (
            following is not None and following.waited == number and following.is_blocking and _batch_of(body) is None
        )
        if note.is_blocking or is_next:
            self._folded.add(number)
            event = self._put(self._host(note.thread), body, note, after=())
        else:
            before = self._last_host.get(note.thread)
            after = () if before is None else (before,)
            event = self._put(self._comm(body), body, note, after=after)
        self._refs[number] = event.ref
        return event

    def _put(self, lane: Lane, body: Body, note: Note, *, after: tuple[Ref, ...]) -> Event:
        position = self._heads.get(lane, 0)
        self._heads[lane] = position + 1
        event = Event(
            rank=self.rank,
            lane=lane,
            position=position,
            body=body,
            after=after,
            site=note.site,
            phase=note.phase,
            issued_ns=note.issued_ns,
            started_ns=note.started_ns,
            completed_ns=note.completed_ns,
            state=note.state,
        )
        if lane.kind is LaneKind.HOST:
            self._last_host[note.thread] = event.ref
        return event

    def _host(self, thread: int) -> Lane:
        label = self._names.get(thread, "main" if thread == 0 else f"thread {thread}")
        return Lane(kind=LaneKind.HOST, index=thread, label=label)

    def _comm(self, body: Body) -> Lane:
        key, label = self._stream_of(body)
        if key not in self._lanes:
            self._lanes[key] = Lane(kind=LaneKind.COMM, index=len(self._lanes), label=label)
        return self._lanes[key]

    def _stream_of(self, body: Body) -> tuple[Hashable, str]:
        """What makes the lane of an asynchronous call, and its label. See [Note: lanes of transfers]."""
        match body:
            case Collective(group=group) | Barrier(group=group) | GroupCreate(group=group):
                return group, f"{group.label or 'group'} stream"
            case Send(peer=peer, group=group, batch=batch) | Recv(peer=peer, group=group, batch=batch):
                name = "p2p" if group is None else group.label or "p2p"
                arrow = f"{self.rank}>{peer}" if isinstance(body, Send) else f"{peer}>{self.rank}"
                if self.transport is Transport.GLOO:
                    return (group, type(body), peer, body.tag), f"{name} {arrow}"
                if batch is not None:
                    return (group, "batch"), f"{name} batches"
                return (group, "pair", peer), f"{name} {min(self.rank, peer)}-{max(self.rank, peer)}"
            case HostSync():
                return "sync", "sync"
            case _:
                return "other", "other"


def _batch_of(body: Body) -> int | None:
    return body.batch if isinstance(body, Send | Recv) else None
