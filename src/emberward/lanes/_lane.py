"""A lane: one host thread that does tasks in the order in which they are given; on a GPU also a stream.

[Note: what a block is]
The body of a ``with`` statement runs on the thread that executes it; Python has no sound way to move it. A block
therefore takes the lane's turn: it waits for the tasks before it, and those after it wait for its end. On a device the
lane's stream is the current one meanwhile, so a read in the block waits for that stream alone. Work that is to leave
the calling thread is a task: ``lane.submit(f)`` or ``@lane``. Decision 0013 has the reasons.
"""

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Sequence
from enum import StrEnum
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, Self, TypeVar

import torch
from torch import Tensor

from emberward.lanes._errors import Stack, gone, queue_full
from emberward.lanes._modes import in_modes, modes_now
from emberward.lanes._observe import WATCHED
from emberward.lanes._result import Result, settled, tensors_of
from emberward.lanes._streams import Streams
from emberward.lanes._task import LOCAL, Task, enter_wait

P = ParamSpec("P")
T = TypeVar("T")

DEFAULT_DEPTH = 64
"""Tasks of a lane that are not done, unless it is made with another `depth`: a bound on what waits in memory."""
MAX_STACK = 8
"""Frames of the submitter that are kept with a task."""
CLOSE_TIMEOUT_S = 10.0


_FORKED = "it was given before a fork, and its thread is the parent's"


class WhenFull(StrEnum):
    """What `submit` does while `depth` tasks are not done."""

    WAIT = "wait"
    RAISE = "raise"


class _Room:
    """That a lane's queue has room: what a submitter waits for that holds another lane."""

    def __init__(self, lane: "Lane") -> None:
        self.lane = lane

    def is_over(self) -> bool:
        return self.lane.num_open < self.lane.depth


class Lane:
    """A named, bounded first-in-first-out queue with a thread. Get one by `lanes.lane`, which makes each name once.

    ``lane.submit(f, ...)`` and ``@lane`` run on the thread, ``with lane:`` here in its turn ([Note: what a block is]).
    `device`: on a GPU the tasks' kernels go to a stream of the lane. `group`: the lane's own communicator, or None.
    Any thread may use a lane.
    """

    def __init__(
        self,
        name: str,
        *,
        device: torch.device,
        depth: int = DEFAULT_DEPTH,
        when_full: WhenFull = WhenFull.WAIT,
        finishes_at_exit: bool = True,
        streams: Streams | None = None,
        group: Any = None,
        on_close: Callable[["Lane"], None] | None = None,
    ) -> None:
        if depth < 1:
            raise ValueError(f"depth must be at least 1, found {depth}")
        self.name = name
        self.device = device
        self.depth = depth
        self.when_full = when_full
        self.finishes_at_exit = finishes_at_exit
        self.streams = streams
        self.group = group
        self._on_close = on_close
        self.num_open = 0
        """Tasks and blocks that are not done."""
        self.waits_for: Any = None
        """What the task or block that has the turn waits for; None while it runs."""
        self._is_closed = False
        self._unclaimed: BaseException | None = None
        self._start_anew()

    def _start_anew(self) -> None:
        """Everything that holds a lock or the thread: also for the child of a fork."""
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._num_blocked = 0
        self._turn = threading.Lock()
        self._thread: threading.Thread | None = None
        self._current: Task | None = None
        self._blocks: list[contextlib.ExitStack] = []

    def __repr__(self) -> str:
        return f"<lane {self.name} on {self.device}, {self.num_open} of {self.depth} open>"

    # -- giving work -------------------------------------------------------------------------------------------------

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Result:
        """The result of ``function(*args, **kwargs)``, which the lane's thread does after all before it.

        Tensors among the arguments (in lists, tuples and dictionaries too, and a module's parameters) may not be
        written in place until the task is done: W103 from the result. Results of other lanes are waited for there.
        Does not block but for room: with `when_full` RAISE it raises W102 then. Raises first what an earlier task
        raised whose result nobody has any more; W104 for room that could never come; W105 on a closed lane.
        """
        task = Task(self, function, args, kwargs, _stack())
        tensors: list[Tensor] = []
        task.is_open = tensors_of(args, tensors)
        if kwargs:
            task.is_open = tensors_of(list(kwargs.values()), tensors) or task.is_open
        if tensors:
            task.handed = [(t, t._version) for t in tensors if not t.is_inference()]
        task.modes = modes_now(self.device.type)
        if self.streams is not None:
            task.state = self.streams.handed(tensors)
        self._give(task, is_bounded=True)
        return Result(task)

    def __call__(self, function: Callable[P, T]) -> Callable[P, "Result"]:
        """`function` as a task: each call submits it and gives its result. For use as a decorator."""

        @functools.wraps(function)
        def submitting(*args: P.args, **kwargs: P.kwargs) -> Result:
            return self.submit(function, *args, **kwargs)

        return submitting

    def join(self, timeout_s: float | None = None) -> None:
        """Returns when all that was given before is done; raises what no result can tell any more. Blocks.

        TimeoutError after `timeout_s`.
        """
        last = self._marker(_nothing)
        self._give(last, is_bounded=False)
        last.outcome(timeout_s)
        self._raise_unclaimed()

    def _give(self, task: Task, *, is_bounded: bool) -> None:
        self._raise_unclaimed()
        observer = WATCHED.observer
        if observer is not None:
            task.point = observer.point()
        with self._lock:
            if is_bounded and self.num_open >= self.depth:
                self._wait_for_room()
            if self._is_closed:
                raise gone(self.name, "the lane is closed")
            self.num_open += 1
            self._tasks.put(task)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=f"lane {self.name}", daemon=True)
                self._thread.start()

    def _wait_for_room(self) -> None:
        """Returns when there is room; the lock is held before and after."""
        if self.when_full is WhenFull.RAISE:
            raise queue_full(self.name, self.depth)
        held = LOCAL.held
        if held:
            enter_wait(held, _Room(self))
        self._num_blocked += 1
        try:
            while self.num_open >= self.depth and not self._is_closed:
                self._room.wait()
        finally:
            self._num_blocked -= 1
            for lane in held:
                lane.waits_for = None

    def _raise_unclaimed(self) -> None:
        if self._unclaimed is not None:
            error, self._unclaimed = self._unclaimed, None
            raise error

    def leave(self, error: BaseException) -> None:
        """Keeps an error whose result is gone, for the next who uses the lane; later ones only while none is kept."""
        self._unclaimed = self._unclaimed or error

    # -- a block -----------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Takes the turn: waits for the tasks before. See [Note: what a block is]."""
        self._raise_unclaimed()
        stack = contextlib.ExitStack()
        if self not in LOCAL.held:
            try:
                self._take_turn(stack)
            except BaseException:
                stack.close()
                raise
            stack.callback(_set_held, LOCAL.held)
            LOCAL.held = (*LOCAL.held, self)
            if self.streams is not None:
                stack.enter_context(self.streams.block())
        self._blocks.append(stack)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        self._blocks.pop().close()
        if error is None:
            self._raise_unclaimed()

    def _take_turn(self, stack: contextlib.ExitStack) -> None:
        with self._lock:
            if self._is_closed:
                raise gone(self.name, "the lane is closed")
            is_free = self.num_open == 0 and WATCHED.observer is None
            if is_free:
                self.num_open += 1
                self._turn.acquire()
        if is_free:
            stack.callback(self._ended)
            stack.callback(self._turn.release)
            return
        turn = _Turn()
        stack.callback(turn.end)
        ready = self._marker(_nothing)
        self._give(ready, is_bounded=False)
        self._give(self._marker(turn.hold), is_bounded=False)
        ready.outcome(None)
        turn.begun.wait()

    def _marker(self, function: Callable[[], None]) -> Task:
        marker = Task(self, function, (), {}, _stack())
        if self.streams is not None:
            marker.state = self.streams.handed(())
        return marker

    def _ended(self) -> None:
        with self._lock:
            self.num_open -= 1
            if self._num_blocked:
                self._room.notify()

    # -- the thread --------------------------------------------------------------------------------------------------

    def run_in_state(
        self, task: Task, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Calls `function` as the submitter would have: its modes, its tensors' production, values for results."""
        if task.modes is None and self.streams is None:
            if not torch.is_grad_enabled():
                torch.set_grad_enabled(True)
            return function(*settled(args), **settled(kwargs)) if task.is_open else function(*args, **kwargs)
        with contextlib.ExitStack() as stack:
            if self.streams is not None:
                stack.enter_context(self.streams.task(task.state))
            if task.modes is not None:
                stack.enter_context(in_modes(task.modes))
            return function(*settled(args), **settled(kwargs))

    def _work(self) -> None:
        """The thread: tasks in their order, until None."""
        LOCAL.held = (self,)
        tasks, turn = self._tasks, self._turn
        while True:
            if self.streams is not None and tasks.empty():
                self.streams.drain()
            task = tasks.get()
            if task is None:
                return
            turn.acquire()
            self._current = task
            observer = WATCHED.observer
            if observer is not None:
                observer.follow(task.point)
            task.run()
            self._current = None
            turn.release()
            self._ended()
            del task

    # -- the end -----------------------------------------------------------------------------------------------------

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> bool:
        """Whether the thread has ended, after what was given was done; waits for it at most `timeout_s`. Blocks.

        The name is free again. False: a task does not end; its thread is left to itself. May be called again.
        """
        return self.end(timeout_s, is_dropping=False)

    def end(self, timeout_s: float, *, is_dropping: bool) -> bool:
        """`close`; with `is_dropping` what waits is not done."""
        with self._lock:
            is_first, self._is_closed = not self._is_closed, True
            if is_first:
                if is_dropping:
                    self._drop("the program ended first")
                self._tasks.put(None)
            self._room.notify_all()
        if self._on_close is not None:
            self._on_close(self)
        if self._thread is None:
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _drop(self, why: str) -> None:
        """The tasks that wait fail with W105, which is no news where nobody asks for them."""
        with contextlib.suppress(Empty):
            while True:
                task = self._tasks.get_nowait()
                if task is not None:
                    self.num_open -= 1
                    task.give_up(gone(self.name, why))

    def forked(self) -> None:
        """In the child of a fork: the thread is not there. What it had fails with W105; a new one starts when asked."""
        if self._current is not None and not self._current.is_done:
            self._current.give_up(gone(self.name, _FORKED))
        self._drop(_FORKED)
        self.num_open, self._unclaimed, self.waits_for = 0, None, None
        self._start_anew()


def _stack() -> Stack:
    """Where the caller of the public method is, at most `MAX_STACK` frames."""
    frame = sys._getframe(2)
    found: list[Any] = []
    own = Lane.__call__.__code__.co_filename
    at: Any = frame
    while at is not None and len(found) < MAX_STACK:
        if at.f_code.co_filename != own:
            found.append((at.f_code, at.f_lasti))
        at = at.f_back
    return tuple(found)


def _set_held(held: Sequence[Lane]) -> None:
    LOCAL.held = tuple(held)


def _nothing() -> None:
    """A task that only marks a place."""


class _Turn:
    """The lane's thread waits while another one has its turn."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self._over = threading.Event()
        self._point: Any = None

    def hold(self) -> None:
        """In the lane's thread: until `end`."""
        self.begun.set()
        self._over.wait()
        if WATCHED.observer is not None:
            WATCHED.observer.follow(self._point)

    def end(self) -> None:
        """In the block's thread."""
        if WATCHED.observer is not None:
            self._point = WATCHED.observer.point()
        self._over.set()
