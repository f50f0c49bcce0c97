"""The recorder of a live rank: writes into its ring what torch is asked to do. Standard library only; see `_wrap`.

[Note: what the live recorder does not do]
It keeps no work, tensor or group alive, adds no synchronisation, and puts no callback onto a future: gloo's own threads
would have to wait for the interpreter. A device is asked for nothing but the times of marks (`_device_clock`), by the
thread that makes the calls. What it cannot do is a problem in the ring, once.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType, TracebackType
from typing import Any, Protocol
from weakref import ReferenceType, ref

from emberward.events import Group, GroupCreate, Owner, Phase, Site, SyncKind
from emberward.sources._groups import GroupTable
from emberward.sources._site import MAX_FRAMES, SiteFinder
from emberward.sources._store import StoreLog
from emberward.sources.ring import MarkKind, RingWriter
from emberward.sources.ring._format import KIND_OF_STAGE, OP_CREATE, OP_WAIT, CallFlag

PASSED_OVER = -1
"""In place of the number of a line that is torch's, Python's or ours. Lower ones are lines of installed packages."""
MAX_CODES = 20_000
"""Lines and functions that are remembered; then all are looked up anew."""
MAX_PENDING = 10_000
"""Calls under way that are known; more are recorded, yet without their end."""


@dataclass(slots=True)
class KnownGroup:
    """A group of torch, `name` to it. `ends_at_wait`: a wait that returns says that a call is done (gloo), not that it
    is queued; `ends_on_cpu`: so for tensors on the CPU, where a device group has another backend for them."""

    number: int
    group: Group
    ends_at_wait: bool
    ends_on_cpu: bool = True
    name: str = ""
    is_nccl: bool = False


Ask = Callable[[Any, Sequence[Any], Mapping[str, Any]], None]
"""Is given torch's handle of the group, the arguments and the named ones; what it raises reaches torch's caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asks:
    """Who is asked about each call before it is issued. `by_method` is asked with the arguments.

    Whoever has found out anyway what a call is looks in `known` by it, has it put into `words` when it is new, and
    tells `issue` of each number.
    """

    by_method: Mapping[str, Ask]
    known: dict[tuple[Any, ...], tuple[int, ...]]
    words: Callable[[str, Any, Sequence[Any]], tuple[int, ...]]
    issue: Callable[[int], None]


class _Result:
    """Stands for a call that gives a tensor to be waited for."""


class Local(threading.local):
    """What is so in one thread. Defaults lie in the class: to ask for a missing name costs ten times as much."""

    batch: int = -1
    is_local: bool = False
    is_functional: bool = False


Pending = tuple[Callable[[], Any], int, int, bool, bool, bool, bool, bool]
"""A call that has not been waited for: torch's work, or a tensor to wait for (weakly); number; group; and whether it is
a transfer, was made with its wait, ends when the wait does, has a work that can be asked, is a barrier. A tuple, as it
is cheap."""


class SiteNumbers:
    """Gives the ring's number of the user's line. See `SiteFinder`, of which this is the fast twin."""

    def __init__(self, writer: RingWriter) -> None:
        self._writer = writer
        self._finder = SiteFinder()
        self.lines: dict[int, int] = {}
        """Numbers of lines by the address of their instruction; negative when they are not the user's.

        An instruction's place is below the size of its code object (3.11 keeps one within the other), and the objects
        are kept: so address plus place is of one instruction alone. One look-up costs half of two.
        """
        self._kept: list[CodeType] = []
        self._packages: list[str] = []
        """Lines of packages: that with the number -2 is the first."""
        self._users: dict[int, Site] = {}
        self._through: dict[tuple[int, int], int] = {}
        """Numbers of the user's lines that came to torch by a package's line."""
        self.enclosing = 0
        """The line that stands for calls from threads without Python frames: where the backward was asked for."""

    def here(self) -> int:
        """The number of the innermost user's line above the caller, of the enclosing call when there is none."""
        frame: FrameType | None = sys._getframe(2)
        lines = self.lines
        inner = 0
        while frame is not None:
            number = lines.get(id(frame.f_code) + frame.f_lasti)
            if number is None:
                number = self.learn(frame)
            if number != PASSED_OVER:
                if number >= 0:
                    return self.by_way_of(number, inner) if inner else number
                inner = inner or number
            frame = frame.f_back
        return self.by_way_of(self.enclosing, inner) if inner else self.enclosing

    def by_way_of(self, number: int, inner: int) -> int:
        """The number of a user's line (0: none is known) that called the package's line `inner`."""
        found = self._through.get((number, inner))
        if found is None:
            if -2 - inner >= len(self._packages):
                return number
            line, user = self._packages[-2 - inner], self._users.get(number)
            if user is None:
                file, _, at = line.rpartition(":")
                found = self._writer.site(file, int(at), "")
            else:
                found = self._writer.site(user.file, user.line, user.function or "", line)
                self._users[found] = user
            self._through[number, inner] = found
        return found

    def raised_at(self, trace: TracebackType | None) -> int:
        """The number of the innermost user's line of a traceback, 0 when it has none."""
        number = 0
        for _ in range(MAX_FRAMES):
            if trace is None:
                break
            site = self._finder.of(trace.tb_frame)
            if site is not None:
                number = self._writer.site(site.file, trace.tb_lineno, site.function or "")
            trace = trace.tb_next
        return number

    def learn(self, frame: FrameType) -> int:
        """The number of a frame's line, negative when it is not the user's; either way remembered."""
        if len(self._kept) >= MAX_CODES:
            for known in (self.lines, self._kept, self._packages, self._users, self._through):
                known.clear()
        code = frame.f_code
        self._kept.append(code)
        owner, file = self._finder.whose(code.co_filename)
        number = PASSED_OVER
        if owner is Owner.USER:
            number = self._writer.site(file, frame.f_lineno, code.co_name)
            self._users[number] = Site(file=file, line=frame.f_lineno, function=code.co_name)
        elif owner is Owner.PACKAGE:
            self._packages.append(f"{file}:{frame.f_lineno}")
            number = PASSED_OVER - len(self._packages)
        self.lines[id(code) + frame.f_lasti] = number
        return number


class Steps:
    """Counts the steps of a program that does not tell them, and knows the marks that are open."""

    def __init__(self) -> None:
        self.is_told = False
        """Whether the program tells its steps itself: then its optimizer's are not counted."""
        self.told: int | None = None
        self.number: int | None = None
        self.began_ns: int | None = None
        self.mark: int | None = None
        self.evaluation: int | None = None
        self.evaluated: ReferenceType[Any] | None = None
        self._optimizer: ReferenceType[Any] | None = None
        self._num_ended = 0
        self._ended_ns: int | None = None

    def is_counted(self, optimizer: object) -> bool:
        """Whether this optimizer's steps are the steps: the first one's that is seen, while it lives."""
        first = None if self._optimizer is None else self._optimizer()
        if first is None:
            self._optimizer = ref(optimizer)
            return True
        return first is optimizer

    def end(self, writer: RingWriter) -> None:
        """A step has ended."""
        writer.moment(MarkKind.STEP, began_ns=self._ended_ns)
        self._ended_ns = time.monotonic_ns()
        self._num_ended += 1
        writer.step(self._num_ended)


class LiveRecorder:
    """What the wrappers of `_wrap` and `_issue` call."""

    def __init__(self, writer: RingWriter) -> None:
        self.writer = writer
        self.pid = os.getpid()
        self.sites = SiteNumbers(writer)
        self.steps = Steps()
        self.heart: Heart | None = None
        self.store: StoreLog | None = None
        self.pending: dict[int, Pending] = {}
        self._results: dict[int, _Result] = {}
        """By memory, what stands for a call that gives a tensor to be waited for."""
        self.sync: dict[Any, tuple[int, int]] = {}
        """Works that torch itself waits for next and that end with that wait: number and group of the call.

        Kept by the work itself, which costs less than a weak reference: it is taken out before the wait begins.
        """
        self._left: frozenset[int] = frozenset()
        self.ends: DeviceEnds | None = None
        """Who finds out when the calls of a device's groups end; None while there is no such group."""
        self.asks: Asks | None = None
        """Who is asked about a call before it is issued; None when nobody is."""
        self.before_creation: Callable[[GroupCreate], None] | None = None
        """Is asked about a group before it is made."""
        self.local = Local()
        self.quiet = threading.Lock()
        """Held by whoever touches torch's groups from beside, and while they are destroyed."""
        self._table = GroupTable()
        self.by_handle: dict[int, KnownGroup] = {}
        """Groups by the address of torch's handle."""
        self._by_name: dict[str, KnownGroup] = {}
        self._num_batches = 0

    # -- groups ------------------------------------------------------------------------------------------------------

    def made(
        self, ranks: Sequence[int], *, label: str | None, is_world: bool, is_member: bool, ends_at_wait: bool
    ) -> KnownGroup:
        """The group that is made now. One without this rank takes room in the ring while half of that is free."""
        group = self._table.made(ranks, label=label, is_world=is_world)
        has_room = is_member or self.writer.num_groups < self.writer.geometry.num_groups // 2
        return KnownGroup(self.writer.group(group) if has_room else 0, group, ends_at_wait)

    def know(self, handle: object, name: str, known: KnownGroup) -> None:
        """Remembers which group torch's handle and name mean."""
        known.name = name
        self.by_handle[id(handle)] = known
        self._by_name[name] = known

    def of_name(self, name: str) -> KnownGroup | None:
        """The group that torch calls `name`, None when it is not known."""
        return self._by_name.get(name)

    def forget(self, handles: Sequence[object], names: Sequence[str]) -> None:
        """Keeps the given handles and names alone: an address may be used again."""
        kept, kept_names = {id(handle) for handle in handles}, set(names)
        for key in self.by_handle.keys() - kept:
            del self.by_handle[key]
        if self.ends is not None:
            self.ends.forget()
        self._by_name = {name: known for name, known in self._by_name.items() if name in kept_names}
        if not kept:
            self._table = GroupTable()

    def count_last(self) -> bool:
        """Reads torch's counts once more before groups are gone, for whoever holds `quiet`; whether all were read."""
        try:
            if self.heart is not None:
                self.heart.count()
        except Exception as error:  # noqa: BLE001 (a count is not worth the program)
            self.problem("counters not read at the end", error)
            return False
        return True

    def creating(self, known: KnownGroup, *, is_local: bool) -> int:
        """Notes that the group is being created; the call's number."""
        flags = CallFlag.BLOCKING | (CallFlag.LOCAL if is_local else 0)
        return self.writer.call(OP_CREATE, known.number, site=self.sites.here(), flags=flags)

    # -- works -------------------------------------------------------------------------------------------------------

    def await_work(self, work: object, pending: Pending) -> None:
        """Remembers a call under way by its work."""
        if len(self.pending) >= MAX_PENDING:
            self.pending.clear()
        self.pending[id(work)] = pending

    def await_result(
        self, memory: int, is_gone: Callable[[], bool], number: int, group: int, *, ends_at_wait: bool
    ) -> None:
        """Remembers a call under way by the memory of its result: torch waits for any view of that."""
        work = _Result()
        if len(self._results) >= MAX_PENDING:
            self._results.clear()
        self._results[memory] = work
        reference = lambda: None if is_gone() else work  # noqa: E731
        self.await_work(work, (reference, number, group, False, False, ends_at_wait, False, False))

    def waiting_for(self, memory: int) -> tuple[Pending, int] | None:
        """As `waiting`, of the call whose result lies in that memory."""
        work = self._results.pop(memory, None)
        return None if work is None else self.waiting(work)

    def waiting(self, work: object, *, has_limit: bool = False) -> tuple[Pending, int] | None:
        """The call that `work` stands for and the number of the wait that begins now; None when it is not known.

        A call that was made with its wait has no wait of its own: number 0. So has a wait that only orders what
        follows on a device; there a barrier's holds the host, and one with a limit.
        """
        pending = self.pending.pop(id(work), None)
        if pending is None or pending[0]() is not work:
            return None
        if not pending[5]:
            if not has_limit and not pending[7]:
                if self.ends is not None and not pending[4]:
                    self.ends.joining(pending[1])
                return pending, 0
        elif pending[4]:
            return pending, 0
        number = self.writer.call(OP_WAIT, 0, site=self.sites.here(), flags=CallFlag.BLOCKING, target=pending[1])
        return pending, number

    def waited(self, pending: Pending, wait: int) -> None:
        """Notes that a wait has returned."""
        if pending[5]:
            self.writer.done(pending[1], pending[2], is_transfer=pending[3])
        elif self.ends is not None:
            if not wait:
                self.ends.ordered(pending[1])
            elif self.ends.gone(pending[1]):
                self.writer.done(pending[1], pending[2], is_transfer=pending[3])
            if wait and pending[7]:
                # A barrier's wait synchronises the stream (WorkNCCL::wait).
                self.ends.host_waited(wait, is_whole_device=False)
                return
        if wait:
            self.writer.done(wait)

    def failed(self, pending: Pending, wait: int) -> None:
        """Notes that a wait has raised."""
        if self.ends is not None:
            self.ends.gone(pending[1])
        self.writer.raised(pending[1])
        if wait:
            self.writer.raised(wait)

    def check_pending(self, limit: int) -> None:
        """Notes which of the `limit` oldest calls that nobody waits for have ended. Asks no device."""
        sync = dict(list(self.sync.items())[:limit])
        for work, (number, group) in sync.items():
            # torch waits for these at once; one that is still here at the second snapshot was left by an exception.
            if number in self._left and work.is_completed() and self.sync.pop(work, None) is not None:
                self._ended(work, number, group, is_transfer=False)
        self._left = frozenset(number for number, _ in sync.values())
        for key, pending in list(self.pending.items())[:limit]:
            reference, number, group, is_transfer, _, ends_at_wait, is_work, _ = pending
            work = reference()
            if work is None:
                self.pending.pop(key, None)
            elif is_work and ends_at_wait and work.is_completed() and self.pending.pop(key, None) is not None:
                self._ended(work, number, group, is_transfer=is_transfer)

    def _ended(self, work: Any, number: int, group: int, *, is_transfer: bool) -> None:
        if work.is_success():
            self.writer.done(number, group, is_transfer=is_transfer)
        else:
            self.writer.raised(number)

    def is_counted(self, optimizer: object) -> bool:
        """Whether this optimizer's steps are the steps. Never raises."""
        try:
            return self.steps.is_counted(optimizer)
        except TypeError as error:
            self.problem("an optimizer that cannot be referred to", error)
            return False

    # -- a program that tells its phases -----------------------------------------------------------------------------

    def enter(self, phase: Phase) -> None:
        """Notes the part of the run that begins now, from a program that tells each. It ends when the next begins.

        A phase without a stage is a step; each but the first of them ends the one before.
        """
        steps, writer = self.steps, self.writer
        steps.is_told = True
        if steps.told is not None:
            writer.end(steps.told)
            steps.told = None
        kind = None if phase.stage is None else KIND_OF_STAGE.get(phase.stage)
        if phase.step is not None and phase.step != steps.number:
            if steps.number is not None and phase.step == steps.number + 1:
                writer.moment(MarkKind.STEP, began_ns=steps.began_ns)
                if CURRENT.stepped is not None:
                    CURRENT.stepped()
            steps.number, steps.began_ns = phase.step, time.monotonic_ns()
            writer.step(phase.step)
        if kind is not None:
            steps.told = writer.begin(kind, phase.name)

    # -- the rest ----------------------------------------------------------------------------------------------------

    def next_batch(self) -> int:
        """The number of the next batch of sends and receives."""
        self._num_batches += 1
        return self._num_batches - 1

    def problem(self, what: str, error: BaseException) -> None:
        """Says once what could not be recorded. Never raises."""
        self.writer.problem(f"{what}: {type(error).__name__}: {error}")


class DeviceEnds(Protocol):
    """Who finds out when the calls of a device's groups end; see `_ends`."""

    def mark(self) -> Any:
        """A mark in the current stream, for what comes; None where none can be made."""

    def issued(self, number: int, known: KnownGroup, handle: Any, begin: Any, *, is_transfer: bool) -> None:
        """A call was given to the device behind the mark `begin`."""

    def joining(self, number: int) -> None:
        """The current stream is about to wait for a call that was made apart from its wait."""

    def ordered(self, number: int) -> None:
        """The current stream waits for the call."""

    def gone(self, number: int) -> bool:
        """Forgets a call; whether it was open."""

    def forget(self) -> None:
        """Groups are gone."""

    def ask(self) -> None:
        """Notes which collectives have ended."""

    def host_waits(self, kind: SyncKind) -> int | None:
        """The number of a wait of the host for the device that begins now, None when no call is open."""

    def host_waited(self, wait: int, *, is_whole_device: bool) -> None:
        """The host's wait has returned."""


class Heart(Protocol):
    """What beats beside the main thread; see `_heart`."""

    def count(self) -> bool:
        """Reads torch's count of each group's calls; whether one has moved."""

    def stop(self) -> None:
        """Ends the beats."""


class _Current:
    """The recorder of this process, None when there is none. A forked child has none: its parent's ring is not its."""

    def __init__(self) -> None:
        self.live: LiveRecorder | None = None
        self.stepped: Callable[[], None] | None = None
        """Is called when a program that tells its steps has ended one."""
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self.live = None


CURRENT = _Current()


def live_recorder() -> LiveRecorder | None:
    """The recorder of this process, None when it has none."""
    return CURRENT.live
