"""When a device reached points of its stream, on the host's clock. Needs torch.

[Note: times of a device]
A mark is put into the current stream and read later, once the device has passed it. Before a collective it says when
the device came to it, behind the wait for it when the stream went on: torch has NCCL's own stream wait for the first
and the current one for the end (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, syncStream and WorkNCCL::wait). Its
own timing (`Work.get_duration`, ``duration_ms`` of the flight recorder) needs TORCH_NCCL_ENABLE_TIMING and tells
lengths without a place in time; so marks are used.

CUDA's events tell the time between two of them, to 0.5 us (CUDA runtime, cudaEventElapsedTime), as a float of
milliseconds. An anchor ties them to the host's clock: an event in a stream of its own, in which nothing else is, so
that the host waits for it alone and for no work. Half of that wait bounds the error. A new one is made every ANCHOR_S:
then a float's step is below 1 us, and what the two clocks drift apart (some parts in a million) below 0.1 ms.

Marks are made and read by the thread that makes the calls, and not while it captures a graph: there a question to an
event would break the capture.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch

ANCHOR_S = 10.0
MAX_SPARE = 1024
"""Events that are kept to be used again."""


class DeviceClock(Protocol):
    """Gives the times at which the device of this thread reaches points of its current stream."""

    def mark(self) -> Any:
        """A point behind all that the current stream was given; None where none can be made. Does not block."""

    def at_ns(self, mark: Any) -> int | None:
        """When the device reached it, on the host's monotonic clock; None while it has not. Does not block."""

    def free(self, mark: Any) -> None:
        """Says that nobody will ask for it again."""


@dataclass(frozen=True, slots=True)
class _Anchor:
    """An event and the host's time when the device reached it."""

    event: Any
    at_ns: int


@dataclass(frozen=True, slots=True)
class _Mark:
    event: Any
    anchor: _Anchor


class CudaClock:
    """A `DeviceClock` by CUDA's events. `cuda` is torch.cuda, or what has its names and signatures.

    See [Note: times of a device]. Never ran on a GPU: `tests/unit/sources/test_device_clock.py` has a stand-in.
    """

    def __init__(self, cuda: Any = torch.cuda, *, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._cuda = cuda
        self._now_ns = now_ns
        self._anchors: dict[int, _Anchor] = {}
        self._streams: dict[int, Any] = {}
        self._spare: list[Any] = []

    def mark(self) -> _Mark | None:
        """See `DeviceClock`. None while a graph is captured."""
        if self._cuda.is_current_stream_capturing():
            return None
        device = self._cuda.current_device()
        anchor = self._anchors.get(device)
        if anchor is None or self._now_ns() - anchor.at_ns > ANCHOR_S * 1e9:
            anchor = self._anchors[device] = self._new_anchor(device)
        event = self._spare.pop() if self._spare else self._cuda.Event(enable_timing=True)
        event.record()
        return _Mark(event, anchor)

    def at_ns(self, mark: _Mark) -> int | None:
        """See `DeviceClock`. None while a graph is captured, too."""
        if self._cuda.is_current_stream_capturing() or not mark.event.query():
            return None
        elapsed_ms: float = mark.anchor.event.elapsed_time(mark.event)
        return mark.anchor.at_ns + round(elapsed_ms * 1e6)

    def free(self, mark: _Mark) -> None:
        """See `DeviceClock`. Its event is used again while the process has one device alone."""
        # An event is made at its first record, for the device of that stream, and stays so (ATen/cuda/CUDAEvent.h).
        if len(self._spare) < MAX_SPARE and len(self._anchors) == 1:
            self._spare.append(mark.event)

    def _new_anchor(self, device: int) -> _Anchor:
        if device not in self._streams:
            self._streams[device] = self._cuda.Stream()
        event = self._cuda.Event(enable_timing=True)
        before = self._now_ns()
        event.record(self._streams[device])
        event.synchronize()
        return _Anchor(event, (before + self._now_ns()) // 2)


_CLOCKS: dict[str, Callable[[], DeviceClock]] = {"nccl": CudaClock}


def register_clock(backend: str, make: Callable[[], DeviceClock]) -> None:
    """Has `make` give the clock of the device on which `backend` of torch.distributed works."""
    _CLOCKS[backend] = make


def clock_of(backends: tuple[str, ...]) -> DeviceClock | None:
    """The clock of the device of a group with these backends; None where there is none."""
    make = next((_CLOCKS[name] for name in backends if name in _CLOCKS), None)
    return None if make is None else make()
