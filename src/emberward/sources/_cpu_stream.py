"""The one stream of the device that `cpu_nccl` stands in for: a thread that does one thing after the other."""

import contextlib
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch._C import _distributed_c10d
from torch._C._distributed_c10d import Work

c10d: Any = _distributed_c10d
MAX_LAUNCHED = 100_000
SHORTEST_S, LONGEST_S = 2e-5, 1e-3
"""Between two questions whether a work is complete: a fiftieth of the time that it has taken, within these bounds."""
_BY_WAIT = (12, 13, 14, 100)
"""SEND, RECV, RECVANYSOURCE, UNKNOWN of OpType, torch/csrc/distributed/c10d/Work.hpp, torch 2.11 to 2.13. Such works of
gloo (the last is a reduce-scatter's, which it makes of an all-reduce) complete in a wait, and in one alone."""


@dataclass(slots=True)
class StreamMark:
    """A point of the stream and when it was reached; None while it was not."""

    at_ns: int | None = None


class CpuStream:
    """Kernels, waits and marks in the order in which one thread gives them. Blocks nobody but who asks it to."""

    def __init__(self, wait: Callable[[Work], Any]) -> None:
        self._wait = wait
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._things: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._launched: deque[tuple[Work, threading.Event | None]] = deque(maxlen=MAX_LAUNCHED)
        """Works that the stream waits for, oldest first; of one of `_BY_WAIT` what says that it is complete."""
        self._thread: threading.Thread | None = None
        self._num_given = self._num_done = 0
        self._num_kernels = self._num_kernels_done = 0
        self._raised: BaseException | None = None

    @property
    def is_computing(self) -> bool:
        """Whether a kernel, or a call behind one, is still to be done."""
        return self._num_kernels != self._num_kernels_done

    def _give(self, thing: Callable[[], None]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="cpu_nccl-stream", daemon=True)
            self._thread.start()
        self._num_given += 1
        self._things.put(thing)

    def _run(self) -> None:
        while True:
            thing = self._things.get()
            try:
                thing()
            except BaseException as error:  # noqa: BLE001 (who synchronises gets it)
                self._raised = error
            self._num_done += 1

    def launch(self, kernel: Callable[[], Any]) -> None:
        """Has the device compute `kernel` after all that it was given."""

        def compute() -> None:
            try:
                kernel()
            finally:
                self._num_kernels_done += 1

        self._num_kernels += 1
        self._give(compute)

    def call(self, make: Callable[[], Work]) -> Work:
        """The work of a collective that is made when the stream comes to it, as NCCL's begins then."""
        done: Any = torch.futures.Future()

        def begin() -> None:
            try:
                work: Any = make()
                if work._get_op_type() in _BY_WAIT:
                    self._wait(work)
                    done.set_result(None)
                else:
                    work.get_future().add_done_callback(lambda made: _pass_on(made, done))
            except BaseException as error:  # noqa: BLE001 (who waits gets it)
                done.set_exception(error)

        self.launch(begin)
        made: Work = c10d._create_work_from_future(done)
        return made

    def wait(self, work: Any) -> None:
        """Has what is given from now on wait for `work`."""
        if work._get_op_type() in _BY_WAIT:
            complete = threading.Event()

            def join() -> None:
                try:
                    self._wait(work)
                finally:
                    complete.set()

            self._launched.append((work, complete))
            self._give(join)
        else:
            self._launched.append((work, None))
            self._give(lambda: _poll(work))

    def mark(self) -> StreamMark:
        """A point behind all that was given."""
        if self._num_given == self._num_done:
            return StreamMark(time.monotonic_ns())
        made = StreamMark()

        def reach() -> None:
            made.at_ns = time.monotonic_ns()

        self._give(reach)
        return made

    def synchronize(self) -> None:
        """Returns when all that was given is done. Raises what a call or a kernel raised. Blocks."""
        while self._launched:
            work, complete = self._launched.popleft()
            if complete is None:
                self._wait(work)
            else:
                complete.wait()
        if self._num_given != self._num_done:
            reached = threading.Event()
            self._give(reached.set)
            reached.wait()
        if self._raised is not None:
            error, self._raised = self._raised, None
            raise error


def _pass_on(made: Any, done: Any) -> None:
    try:
        done.set_result(made.value())
    except BaseException as error:  # noqa: BLE001 (who waits gets it)
        with contextlib.suppress(RuntimeError):
            done.set_exception(error)


def _poll(work: Work) -> None:
    """Returns when the work is complete, well or not. Holds the interpreter for moments only."""
    began = time.monotonic()
    while not work.is_completed():
        time.sleep(min(max(SHORTEST_S, (time.monotonic() - began) / 50), LONGEST_S))


class CpuClock:
    """The `DeviceClock` of such a stream."""

    def __init__(self, stream: CpuStream) -> None:
        self._stream = stream

    def mark(self) -> StreamMark:
        """See `DeviceClock`."""
        return self._stream.mark()

    def at_ns(self, mark: StreamMark) -> int | None:
        """See `DeviceClock`."""
        return mark.at_ns

    def free(self, mark: StreamMark) -> None:
        """See `DeviceClock`."""
