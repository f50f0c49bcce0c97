"""When calls end whose wait does not tell: on a device, where a wait only orders what follows it. Needs torch.

[Note: ends on a device]
On NCCL a wait returns at once, and so does the work's last reference: a program keeps none. To ask a work from beside
would keep its tensors alive and query the device, which breaks a graph that is being captured. But torch's own watchdog
asks already, ten times a second, and writes into its flight recorder how far each group has come: the number of the
last call that was enqueued and of the last that completed (``pg_status`` of FlightRecorder.hpp and ProcessGroupNCCL.cpp
in torch/csrc/distributed/c10d, torch 2.11 to 2.13). Without its entries such a dump takes 4 us (torch 2.13, gloo). The
heart reads it at each beat while calls are open: an end is known up to 0.2 s late, and dated then. Where the device has
a clock (`_device_clock`), begin and end are dated anew by its marks, read at later calls and behind waits of the host:
they are the times of the device, and the ring has a begin only of them. So are the waits of a stream for a call that
was made apart from its wait: such a wait is an event on the device's lane.

gloo does not count transfers there, and NCCL writes their own numbers in the place of the collectives' (initWork gives
a work ``seqP2P_`` or ``seqCollective_``). So transfers, and on NCCL the collectives of a group with transfers, end
where the host has waited for the device, when the same stream had waited for them before.

The host waits where a value is read (`Tensor.item`, `tolist`, `cpu`), where it synchronises a device, a stream or an
event, at a barrier, and at a wait with a time-out (WorkNCCL::wait). Each is an event of its own in the ring; a wait
that only orders is none of the host's. So a rank that goes on in its own code sits in no call.
"""

import functools
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch._C import _distributed_c10d

from emberward.events import SyncKind
from emberward.sources._device_clock import DeviceClock
from emberward.sources._live import CURRENT, MAX_PENDING, KnownGroup, LiveRecorder
from emberward.sources.dumps._unpickle import load_plain
from emberward.sources.ring._format import OP_SYNC, OP_WAIT, SYNC_KINDS, CallFlag

DEVICE_BACKENDS = ("nccl", "xccl", "ucc")
"""Parts of the names of backends whose waits do not block the host; of those torch keeps a status for NCCL's."""
MAX_LEARNT_BEATS = 64
"""Most beats between two attempts to find out torch's number of a group; they double from one."""
MAX_MARKED = 1024
"""Calls whose marks are kept until the device has passed them; of more all are forgotten."""
MAX_READ = 8
"""Calls whose marks are read when another is made."""

_READS = {"item": SyncKind.ITEM, "tolist": SyncKind.COPY_TO_HOST, "cpu": SyncKind.COPY_TO_HOST}
_SYNCHRONIZES = {
    SyncKind.SYNCHRONIZE: torch.cuda,
    SyncKind.STREAM: torch.cuda.Stream,
    SyncKind.EVENT: torch.cuda.Event,
}


def is_device_backend(name: str) -> bool:
    """Whether a wait on works of this backend returns before the call is done."""
    return any(part in name for part in DEVICE_BACKENDS)


def dump_function(*, has_nccl: bool) -> Any:
    """torch's dump of its flight recorder: entries, stacks, only what is active. None when this build has none.

    A build with NCCL has two: of NCCL's groups, and of all others.
    """
    nccl = getattr(_distributed_c10d, "_dump_nccl_trace", None) if has_nccl else None
    return nccl or getattr(_distributed_c10d, "_dump_fr_trace", None)


_Open = tuple[KnownGroup, int | None, bool]
"""The group, torch's number of the call in it where torch's count tells its end, and whether it is a transfer."""


@dataclass(frozen=True, slots=True)
class _Marked:
    """Marks of a call: before it, before the stream's wait for it where that came apart, and behind that wait.

    `wait`: the ring's number of a wait that came apart.
    """

    number: int
    group: KnownGroup
    is_transfer: bool
    begin: Any
    end: Any
    wait: int | None = None
    wait_begin: Any = None


class DeviceEnds:
    """The open calls of the device's groups, in the order in which they were made. See [Note: ends on a device].

    Threads that make calls add and the heart takes out, each by one operation on a dict. It leaves `clock` alone.
    """

    def __init__(self, live: LiveRecorder, clock: DeviceClock | None) -> None:
        self._live = live
        self._clock = clock
        self._begins: dict[int, tuple[KnownGroup, bool, Any]] = {}
        """By the ring's number, of calls that no stream waits for yet: group, whether a transfer, the mark before."""
        self._marked: deque[_Marked] = deque()
        self._reading = threading.Lock()
        self._waits: dict[int, tuple[int, Any]] = {}
        """Of calls for which a stream waits now, apart from their making: the wait's number, and the mark before it."""
        self._ended_ns: dict[int, int] = {}
        """By group: when the device ended its last collective. One communicator does one after the other."""
        self._open: dict[int, _Open] = {}
        """By the ring's number."""
        self._ordered: dict[int, int] = {}
        """Calls that no count tells and that a stream waits for: the stream."""
        self._ids: dict[str, str] = {}
        """torch's number of a group in its status, by the group's name."""
        self._with_transfers: set[str] = set()
        self._num_beats = 0
        self._num_skipped = 1

    def mark(self) -> Any:
        """A mark in the current stream for the call that comes, for `issued`; None where none can be made."""
        clock = self._clock
        if clock is None:
            return None
        if self._marked:
            self._read(MAX_READ)
        try:
            return clock.mark()
        except Exception as error:  # noqa: BLE001 (a clock that fails is left: the program goes on without times)
            self._clock = None
            self._live.problem("times of the device not taken", error)
            return None

    def issued(self, number: int, known: KnownGroup, handle: Any, begin: Any, *, is_transfer: bool) -> None:
        """A call was given to the device behind the mark `begin`."""
        if begin is not None:
            if len(self._begins) >= MAX_MARKED:
                self._begins.pop(next(iter(self._begins)))
            self._begins[number] = known, is_transfer, begin
        if len(self._open) >= MAX_PENDING:
            self._open.clear()
            self._ordered.clear()
        if is_transfer and known.is_nccl:
            self._with_transfers.add(known.name)
        is_counted = not is_transfer and known.name not in self._with_transfers
        self._open[number] = known, handle._get_sequence_number_for_group() if is_counted else None, is_transfer

    def joining(self, number: int) -> None:
        """The current stream is about to wait for a call that was made apart from its wait."""
        before = None if number not in self._begins else self.mark()
        if before is not None:
            live = self._live
            wait = live.writer.call(OP_WAIT, 0, site=live.sites.here(), flags=CallFlag.STREAM, target=number)
            self._waits[number] = wait, before

    def ordered(self, number: int) -> None:
        """The current stream waits for the call."""
        found = self._open.get(number)
        if found is not None and found[1] is None:
            self._ordered[number] = _stream()
        made = self._begins.pop(number, None)
        wait, before = self._waits.pop(number, (None, None))
        end = None if made is None else self.mark()
        if made is not None and end is not None:
            if len(self._marked) >= MAX_MARKED:
                self._marked.clear()
            self._marked.append(_Marked(number, *made, end, wait, before))

    def _read(self, limit: int) -> None:
        """Dates the calls whose marks the device has passed, at most `limit` of them."""
        if self._clock is None or not self._reading.acquire(blocking=False):
            return
        try:
            for _ in range(min(limit, len(self._marked))):
                ended = self._clock.at_ns(self._marked[0].end)
                if ended is None:
                    break
                self._date(self._clock, self._marked.popleft(), ended)
        except Exception as error:  # noqa: BLE001 (as in `mark`)
            self._clock = None
            self._live.problem("times of the device not read", error)
        finally:
            self._reading.release()

    def _date(self, clock: DeviceClock, call: _Marked, ended: int) -> None:
        writer, place = self._live.writer, call.group.number
        began = clock.at_ns(call.begin) or ended
        if not call.is_transfer:
            began = max(began, self._ended_ns.get(place, 0))
            self._ended_ns[place] = ended
        is_open = self.gone(call.number)
        writer.done(
            call.number,
            place if is_open else 0,
            is_transfer=call.is_transfer,
            started_ns=min(began, ended),
            completed_ns=ended,
        )
        if call.wait is not None:
            waited = ended if call.wait_begin is None else clock.at_ns(call.wait_begin) or ended
            writer.done(call.wait, started_ns=waited, completed_ns=ended)
        for mark in (call.begin, call.end, call.wait_begin):
            if mark is not None:
                clock.free(mark)

    def gone(self, number: int) -> bool:
        """Forgets a call; whether it was open."""
        self._ordered.pop(number, None)
        return self._open.pop(number, None) is not None

    def forget(self) -> None:
        """Groups are gone, and torch gives their names again."""
        self._ids.clear()

    # -- from beside -------------------------------------------------------------------------------------------------

    def ask(self) -> None:
        """Notes which collectives have ended. Touches no group of torch: it may be called while they are destroyed."""
        calls = [(number, known, at) for number, (known, at, _) in list(self._open.items()) if at is not None]
        calls = [call for call in calls if call[1].name not in self._with_transfers]
        if not calls:
            return
        by_name = {known.name: known for _, known, _ in calls}
        self._learn([name for name in by_name if name not in self._ids])
        completed: dict[str, int] = {}
        for is_nccl in {known.is_nccl for known in by_name.values()}:
            dump = dump_function(has_nccl=is_nccl)
            found = {} if dump is None else load_plain(dump(False, False, False)).get("pg_status", {})
            for name, known in by_name.items():
                counts = found.get(self._ids.get(name))
                if known.is_nccl is is_nccl and counts is not None:
                    completed[name] = int(counts["last_completed_collective"])
        for number, known, at in calls:
            if at <= completed.get(known.name, -1) and self.gone(number):
                self._live.writer.done(number, known.number)

    def _learn(self, names: list[str]) -> None:
        """Finds out torch's numbers of groups by the entries of its flight recorder; seldom, at 30 us an entry."""
        if not names:
            return
        self._num_beats += 1
        if self._num_beats < self._num_skipped:
            return
        self._num_beats, self._num_skipped = 0, min(2 * self._num_skipped, MAX_LEARNT_BEATS)
        for is_nccl in (True, False):
            dump = dump_function(has_nccl=is_nccl)
            if dump is None:
                continue
            for entry in load_plain(dump(True, False, False)).get("entries", ()):
                if entry["process_group"][0] in names:
                    self._ids[entry["process_group"][0]] = str(entry["pg_id"])
        if all(name in self._ids for name in names):
            self._num_skipped = 1

    # -- where the host waits ----------------------------------------------------------------------------------------

    def host_waits(self, kind: SyncKind) -> int | None:
        """The number of a wait of the host for the device that begins now, None when no call is open."""
        live = self._live
        if not self._open:
            return None
        return live.writer.call(OP_SYNC, 0, site=live.sites.here(), flags=CallFlag.BLOCKING, tag=SYNC_KINDS.index(kind))

    def host_waited(self, wait: int, *, is_whole_device: bool) -> None:
        """The wait has returned: what its stream waited for has ended."""
        writer = self._live.writer
        writer.done(wait)
        self._read(len(self._marked))
        stream = None if is_whole_device else _stream()
        for number, waiting in list(self._ordered.items()):
            found = self._open.get(number)
            if found is not None and number < wait and stream in (None, waiting) and self.gone(number):
                writer.done(number, found[0].number, is_transfer=found[2])


def _stream() -> int:
    cuda: Any = torch.cuda
    return int(cuda.current_stream().cuda_stream) if cuda.is_initialized() else 0


_WRAPPED: list[bool] = []


def wrap_host_waits(*, is_on_cpu: bool) -> None:
    """Has the places recorded at which the host waits for the device. Once in a process, before its first device group.

    `is_on_cpu`: tensors on the CPU are the device's too, as for a stand-in of NCCL.
    """
    if _WRAPPED:
        return
    _WRAPPED.append(True)
    tensor: Any = torch.Tensor
    for name, kind in _READS.items():
        setattr(tensor, name, _host_wait(getattr(torch.Tensor, name), kind, is_read=not is_on_cpu))
    owner: Any
    for kind, owner in _SYNCHRONIZES.items():
        owner.synchronize = _host_wait(owner.synchronize, kind, is_read=False)


def _host_wait(original: Callable[..., Any], kind: SyncKind, *, is_read: bool) -> Callable[..., Any]:
    """`original`, which blocks until the device has come so far. `is_read`: only for a tensor that is on the device."""

    @functools.wraps(original)
    def call(*args: Any, **named: Any) -> Any:
        if torch.compiler.is_compiling() or (is_read and args[0].is_cpu):
            return original(*args, **named)
        live = CURRENT.live
        ends = None if live is None else live.ends
        number = None
        if live is not None and ends is not None:
            try:
                number = ends.host_waits(kind)
            except Exception as error:  # noqa: BLE001 (a wait is not worth the program)
                live.problem("a wait of the host not recorded", error)
        if live is None or ends is None or number is None:
            return original(*args, **named)
        try:
            result = original(*args, **named)
        except BaseException:
            live.writer.raised(number)
            raise
        ends.host_waited(number, is_whole_device=kind is SyncKind.SYNCHRONIZE)
        return result

    return call
