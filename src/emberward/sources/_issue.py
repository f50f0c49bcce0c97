"""The short way of a collective: what runs for nearly every call of a training, and for its wait. Needs torch.

[Note: the short way]
A method of ProcessGroup that takes one tensor and options by position, with a wait that torch itself makes next, is
what a training calls again and again. Its wrapper is written out here without a call of our own functions, and whatever
it needs is bound when it is made: a call of a Python function costs 0.1 us, and between two collectives torch and the
kernel take the processor's caches, so that all of it costs two to three times as much as in a loop by itself. What is
written is what `RingWriter.call` and `done` write; any other call goes the long way of `_wrap`. Group 0, which stands
for groups that the ring does not count, has its words in a gap of the file.

[Note: sums]
To read the reduction from torch's options takes 0.5 us: each time pybind11 makes an object and registers it. torch sets
it just before the call, so the property notes the options that a sum was set in. Only while the call gets these very
options are they known to be a sum; all others are read.
"""

import functools
import sys
import time
import zlib
from collections.abc import Callable, Mapping
from threading import get_ident
from types import FrameType
from typing import Any
from weakref import ref

import torch.distributed as dist
from torch import Tensor

from emberward.sources._live import CURRENT, PASSED_OVER, KnownGroup, LiveRecorder
from emberward.sources.ring._format import (
    CHECK,
    CHECKED_SLOT,
    DONE,
    GROUP_WORDS,
    SHORT_SLOT,
    SLOT_BYTES,
    SLOT_DONE_AT,
    CallFlag,
    short_kind,
)
from emberward.sources.ring._writer import COMPLETED, ISSUED

SHORT: Mapping[str, type[Any]] = {
    "allreduce": dist.AllreduceOptions,
    "broadcast": dist.BroadcastOptions,
    "reduce": dist.ReduceOptions,
}
"""Methods that have a short way, with the options that it knows."""
_NONE = object()
BLOCKING = int(CallFlag.BLOCKING)
assert (GROUP_WORDS, SLOT_BYTES) == (8, 112), "written out below"

Sized = Callable[[Any], tuple[Tensor | None, int]]
Learn = Callable[[LiveRecorder, Any], KnownGroup]


class _Summed:
    """The options in which a sum was set last, until a call gets them. See [Note: sums]."""

    __slots__ = ("options",)

    def __init__(self) -> None:
        self.options: object = None


SUMMED = _Summed()


def note_sums(kind: type[Any]) -> None:
    """Has ``reduceOp`` of torch's options note each sum in `SUMMED`. See [Note: sums]."""
    found = vars(kind)["reduceOp"]
    set_reduction, summed, sum_op = found.fset, SUMMED, dist.ReduceOp.SUM

    def note(options: Any, op: Any) -> None:
        set_reduction(options, op)
        summed.options = options if op is sum_op else None

    setattr(kind, "reduceOp", property(found.fget, note, doc=found.__doc__))  # noqa: B010 (mypy: no such attribute)


def short_method(
    live: LiveRecorder,
    method: str,
    original: Callable[..., Any],
    long_way: Callable[..., Any],
    *,
    op: int,
    sized: Sized,
    learn: Learn,
    dtypes: Mapping[Any, int],
    reduce_code: Callable[[Any], int],
) -> Callable[..., Any]:
    """`original`, a method of `SHORT`, written into the ring of `live`; `long_way` takes the calls of other forms.

    `sized`, `learn`, `dtypes` and `reduce_code` are `_wrap`'s.
    """
    kind, has_reduce, has_root = SHORT[method], "reduce" in method, method != "allreduce"
    kinds, no_kind, summed = {dtype: short_kind(op, code) for dtype, code in dtypes.items()}, short_kind(op, 0), SUMMED
    current, by_handle, sync, sites, lines = CURRENT, live.by_handle, live.sync, live.sites, live.sites.lines
    writer = live.writer
    area, words, issued, threads, places = writer.area, writer.words, writer.issued, writer.threads, writer.places
    issued_at, pack, put, check_of = ISSUED, SHORT_SLOT.pack, CHECKED_SLOT.pack_into, zlib.adler32
    now_ns, ident_of, frame_at = time.monotonic_ns, get_ident, sys._getframe

    @functools.wraps(original)
    def call(handle: Any, given: Any = _NONE, options: Any = None, *more: Any, **named: Any) -> Any:
        if type(options) is not kind or current.live is not live or more or named:
            given = () if given is _NONE else (given,) if options is None else (given, options, *more)
            return long_way(handle, *given, **named)
        asks = live.asks
        try:
            group = by_handle.get(id(handle)) or learn(live, handle)
            is_sync = options.asyncOp is False
            if type(given) is list and len(given) == 1 and isinstance(tensor := given[0], Tensor):
                numel, dtype = tensor.numel(), kinds.get(tensor.dtype, no_kind)
            else:
                tensor, numel = sized(given)
                dtype = no_kind if tensor is None else kinds.get(tensor.dtype, no_kind)
            reduce_op, root = 0, -1
            if has_reduce:
                reduce_op = 1 if options is summed.options else reduce_code(options)
                summed.options = None
            if has_root:
                root = group.group.ranks[options.rootRank]
        except Exception as error:  # noqa: BLE001 (an unknown way to call: the call is made, and is not recorded)
            if asks is not None:
                asks.by_method[method](handle, (given, options), named)
            live.problem(f"{method} not recorded", error)
            return original(handle, given, options)
        if asks is not None:
            if tensor is None or numel != tensor.numel():
                asks.by_method[method](handle, (given, options), named)
            else:
                signature = (method, handle, tensor.shape, tensor.dtype, reduce_op, root)
                found = asks.known.get(signature)
                if found is None:
                    found = asks.known[signature] = asks.words(method, handle, (given, options))
                for number in found:
                    asks.issue(number)
        try:
            inner = 0
            frame: FrameType | None = frame_at(1)
            while frame is not None:
                site = lines.get(id(frame.f_code) + frame.f_lasti)
                if site is None:
                    site = sites.learn(frame)
                if site >= 0:
                    break
                if site != PASSED_OVER:
                    inner = inner or site
                frame = frame.f_back
            else:
                site = sites.enclosing
            if inner:
                site = sites.by_way_of(site, inner)
            number, at = next(places)
            writer.last_number, place = number, group.number
            ends = group.ends_at_wait or (group.ends_on_cpu and tensor is not None and tensor.is_cpu)
            sequence = issued[place] = issued[place] + 1
            words[issued_at + place * 8] = sequence
            thread = threads.get(ident_of())
            if thread is None:
                thread = writer.thread(ident_of())
            slot = pack(
                number, now_ns(), numel, -1, sequence, root, -1, writer.now_step, site, writer.now_phase, place, thread,
                dtype, reduce_op, BLOCKING if is_sync and ends else 0,
            )  # fmt: skip
            put(area, at, slot, check_of(slot))
        except Exception as error:  # noqa: BLE001 (an unknown way to call: the call is made, and is not recorded)
            live.problem(f"{method} not recorded", error)
            return original(handle, given, options)
        begin = None if ends or live.ends is None else live.ends.mark()
        try:
            work = original(handle, given, options)
        except BaseException:
            writer.raised(number)
            raise
        try:
            if work is None:
                writer.done(number, place)
            elif is_sync and group.ends_at_wait:
                sync[work] = number, place
            else:
                if not ends and live.ends is not None:
                    live.ends.issued(number, group, handle, begin, is_transfer=False)
                live.await_work(work, (ref(work), number, place, False, is_sync, ends, True, False))
        except Exception as error:  # noqa: BLE001 (a work of a kind that cannot be referred to: its end is not recorded)
            live.problem(f"the end of {method} not recorded", error)
        return work

    return call


def short_wait(live: LiveRecorder, original: Callable[..., Any], long_way: Callable[..., Any]) -> Callable[..., Any]:
    """`original`, the wait of a kind of work, for calls that were made with their wait; `long_way` for the others."""
    current, sync, writer = CURRENT, live.sync, live.writer
    area, words, num_slots = writer.area, writer.words, writer.num_slots
    completed_at, done_at = COMPLETED, writer.slots_at + SLOT_DONE_AT
    put, now_ns = DONE.pack_into, time.monotonic_ns

    @functools.wraps(original)
    def wait(work: Any, *args: Any, **named: Any) -> Any:
        if current.live is not live:
            return long_way(work, *args, **named)
        try:
            pending = sync.pop(work, None)
        except TypeError:  # a work of a program's own that cannot be hashed
            pending = None
        if pending is None:
            return long_way(work, *args, **named)
        number, place = pending
        try:
            result = original(work, *args, **named)
        except BaseException:
            writer.raised(number)
            raise
        now = now_ns()
        words[completed_at + place * 8] += 1
        if writer.last_number - number < num_slots:
            put(area, done_at + (number - 1) % num_slots * 112, 0, now, CHECK ^ number ^ now)
        return result

    return wait
