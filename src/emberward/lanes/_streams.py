"""Torch's door for lanes of a device: a stream, and the events that order it with others.

[Note: memory of a device]
A task's arguments are kept until an event behind its kernels has passed, so that the allocator, which orders frees by
the stream that allocated, cannot give their memory away while the lane still reads. No ``record_stream`` is needed for
them: it frees late, by polling (pytorch#147168). A result that another stream uses was allocated on the lane's; when
its last reference goes nobody can say, so it alone is recorded there.
"""

import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary


class Event(Protocol):
    """A mark in a stream (``torch.cuda.Event``)."""

    def query(self) -> bool:
        """Whether the device has passed it. Does not block."""

    def synchronize(self) -> None:
        """Blocks the host until the device has passed it."""


class Stream(Protocol):
    """A device's queue (``torch.cuda.Stream``)."""

    def wait_event(self, event: Any) -> None:
        """What comes after in the stream waits for `event`."""

    def record_event(self) -> Any:
        """A mark behind what the stream holds now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """Torch's functions for streams of one device; a test gives its own."""

    new_stream: Callable[[], Stream]
    current: Callable[[], Stream]
    entered: Callable[[Stream], contextlib.AbstractContextManager[Any]]


def cuda_door(device: torch.device) -> Door:
    """The door of a CUDA device."""
    return Door(
        new_stream=lambda: torch.cuda.Stream(device),  # type: ignore[no-untyped-call]
        current=lambda: torch.cuda.current_stream(device),
        entered=lambda stream: torch.cuda.stream(stream),  # type: ignore[arg-type]  # a torch.cuda.Stream here
    )


@dataclass(slots=True)
class TaskEvents:
    """What orders one task on its device: it waits for `after`; `end` lies behind it once it has run."""

    after: list[Any]
    kept: list[Tensor]
    end: Any = None
    users: list[Any] = field(default_factory=list)


_PRODUCED: Any = WeakTensorKeyDictionary()
"""Tensors whose production is known: an event behind it, and the tensor's version then."""


def produced(tensor: Tensor) -> Tensor:
    """`tensor`; lanes that read it wait for what the current stream holds now, and for nothing that comes later.

    Call it right after the line that makes a tensor of a device: without, a task waits for all that the submitter's
    stream holds when it is submitted. A tensor in host memory is ready when its line returns. Does not block.
    """
    if tensor.is_cuda:
        event = torch.cuda.current_stream(tensor.device).record_event()
        _PRODUCED[tensor] = (event, tensor._version)
    return tensor


class Streams:
    """One lane's stream. `handed` and `use` are called by whoever submits and uses, `task` by the lane's thread."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self.stream = door.new_stream()
        self._in_flight: deque[TaskEvents] = deque()

    def handed(self, tensors: Sequence[Tensor]) -> TaskEvents:
        """What a task that reads `tensors` waits for: their production where it is known, else the current stream."""
        after: list[Any] = []
        is_known = bool(tensors)
        for tensor in tensors:
            event, version = _PRODUCED.get(tensor, (None, None))
            if event is None or version != tensor._version:
                is_known = is_known and tensor.device.type == "cpu"
            else:
                after.append(event)
        if not is_known:
            after.append(self._door.current().record_event())
        return TaskEvents(after, list(tensors))

    @contextlib.contextmanager
    def task(self, events: TaskEvents) -> Iterator[None]:
        """The lane's stream is the current one, and waits first. See [Note: memory of a device]."""
        for event in events.after:
            self.stream.wait_event(event)
        try:
            with self._door.entered(self.stream):
                yield
        finally:
            events.end = self.stream.record_event()
            self._in_flight.append(events)
            self._let_go()

    def use(self, value: Any, events: TaskEvents) -> Any:
        """`value`; the current stream waits for the task's end on the device."""
        current = self._door.current()
        if current != self.stream and current not in events.users:
            current.wait_event(events.end)
            for tensor in _tensors(value):
                tensor.record_stream(current)  # type: ignore[arg-type]  # a torch.cuda.Stream here
            events.users.append(current)
        return value

    @contextlib.contextmanager
    def block(self) -> Iterator[None]:
        """The lane's stream is the current one; it waits for the outer one first, which waits for it at the end."""
        outer = self._door.current()
        self.stream.wait_event(outer.record_event())
        try:
            with self._door.entered(self.stream):
                yield
        finally:
            outer.wait_event(self.stream.record_event())

    def drain(self) -> None:
        """Blocks the lane's thread, which has nothing to do, until the device has: then nothing is kept any more."""
        if self._in_flight:
            self._in_flight[-1].end.synchronize()
            self._let_go()

    def _let_go(self) -> None:
        while self._in_flight and self._in_flight[0].end.query():
            self._in_flight.popleft().kept.clear()


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        if value.is_cuda:
            yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
    elif is_dataclass(value):
        for field_ in fields(value):
            yield from _tensors(getattr(value, field_.name))
