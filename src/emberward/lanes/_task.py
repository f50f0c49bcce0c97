"""A task of a lane: what it does, what it was handed, how it ended, and who waits for it."""

import threading
from _thread import LockType, allocate_lock
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from torch import Tensor

from emberward.lanes._errors import Stack, site_of, stack_text, waits_for_itself, written_to
from emberward.lanes._modes import Modes
from emberward.lanes._observe import WATCHED

if TYPE_CHECKING:
    from emberward.lanes._lane import Lane


class Awaited(Protocol):
    """What the holder of a lane waits for."""

    lane: "Lane"

    def is_over(self) -> bool:
        """Whether the wait is over."""


class _Local(threading.local):
    """The lanes whose turn this thread has."""

    held: "tuple[Lane, ...]" = ()


LOCAL = _Local()
_GRAPH = threading.Lock()
"""Held while who waits for whom is looked through."""


class Task:
    """One task. Its result is an object of its own: that tells when nobody can ask any more how it ended."""

    __slots__ = (
        "args",
        "error",
        "function",
        "handed",
        "is_abandoned",
        "is_done",
        "is_open",
        "is_taken",
        "kwargs",
        "lane",
        "latch",
        "modes",
        "point",
        "stack",
        "state",
        "trace",
        "value",
    )

    def __init__(
        self,
        lane: "Lane",
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        stack: Stack,
    ) -> None:
        self.lane = lane
        self.function: Callable[..., Any] | None = function
        self.args = args
        self.kwargs = kwargs
        self.stack = stack
        self.is_done = False
        self.is_open = False
        """Whether a result or an `Out` among the arguments is still to be settled."""
        self.is_abandoned = False
        """Whether the result is gone."""
        self.is_taken = False
        """Whether somebody knows of the error."""
        self.error: BaseException | None = None
        self.trace: TracebackType | None = None
        self.value: Any = None
        self.modes: Modes | None = None
        self.state: Any = None
        self.point: Any = None
        self.handed: list[tuple[Tensor, int]] | None = None
        self.latch: LockType = allocate_lock()
        self.latch.acquire()

    # -- for whoever waits -------------------------------------------------------------------------------------------

    def is_over(self) -> bool:
        """Whether it has ended on its host thread."""
        return self.is_done

    def wait(self, timeout_s: float | None) -> None:
        """Returns when it has ended. Blocks; TimeoutError after `timeout_s`; W104 when it waits for the caller."""
        if self.is_done:
            return
        held = LOCAL.held
        if held:
            enter_wait(held, self)
        try:
            if not self.latch.acquire(timeout=-1 if timeout_s is None else timeout_s):
                raise TimeoutError(f"lane {self.lane.name}: no result within {timeout_s} s")
            self.latch.release()
        finally:
            for lane in held:
                lane.waits_for = None

    def outcome(self, timeout_s: float | None) -> Any:
        """The value, or raises the error. Blocks as `wait`."""
        self.wait(timeout_s)
        observer = WATCHED.observer
        if observer is not None:
            observer.follow(self.point)
        if self.error is not None:
            self.is_taken = True
            raise self.error.with_traceback(self.trace)
        streams = self.lane.streams
        return self.value if streams is None else streams.use(self.value, self.state)

    def abandon(self) -> None:
        """Nobody can use the result any more: what went wrong comes out at the lane's next use."""
        self.is_abandoned = True
        self._leave()

    # -- for the lane ------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Does it, in the lane's thread; whatever it raises is kept for who uses the result."""
        assert self.function is not None, "a task is run once"
        try:
            if self.handed is not None:
                self._check()
            value = self.lane.run_in_state(self, self.function, self.args, self.kwargs)
            if self.handed is not None:
                self._check()
            self.value = value
        except BaseException as error:  # noqa: BLE001 (a lane's thread hands on whatever ended the task)
            self.fail(error)
            return
        self._finish()

    def fail(self, error: BaseException) -> None:
        """It has ended with an error."""
        note = f"The task was submitted to lane {self.lane.name} at:\n{stack_text(self.stack)}"
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
        self.error, self.trace = error, error.__traceback__
        self._finish()
        self._leave()

    def give_up(self, error: BaseException) -> None:
        """It will not be done; that is told to whoever asks for the result, and to nobody else."""
        self.is_taken = True
        self.fail(error)

    def _leave(self) -> None:
        if self.is_abandoned and self.error is not None and not self.is_taken:
            self.is_taken = True
            self.lane.leave(self.error)

    def _finish(self) -> None:
        self.function, self.args, self.kwargs, self.handed = None, (), {}, None
        observer = WATCHED.observer
        if observer is not None:
            self.point = observer.point()
        self.is_done = True
        self.latch.release()

    def _check(self) -> None:
        """Raises W103 when a tensor that was handed over was written in place since."""
        assert self.handed is not None
        for tensor, version in self.handed:
            if tensor._version != version:
                name = getattr(self.function, "__name__", repr(self.function))
                raise written_to(self.lane.name, f"an argument of {name}", tensor.shape, site_of(self.stack))


def enter_wait(held: "tuple[Lane, ...]", awaited: Awaited) -> None:
    """Notes that the holder of `held` waits now. Raises W104 when those that it waits for wait for it."""
    with _GRAPH:
        names: list[str] = [held[-1].name]
        at: Awaited | None = awaited
        while at is not None and not at.is_over():
            if at.lane in held:
                raise waits_for_itself(names)
            names.append(at.lane.name)
            at = at.lane.waits_for
        for lane in held:
            lane.waits_for = awaited
