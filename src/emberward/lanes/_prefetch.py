"""Batches made ready ahead of time on a lane."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Self, TypeVar

from emberward.findings import Cause, EmberwardError
from emberward.lanes._lane import CLOSE_TIMEOUT_S, Lane
from emberward.lanes._result import Result

Item = TypeVar("Item")
Indices = TypeVar("Indices")


class PrefetchLoader(Generic[Item]):
    """Yields fetch(indices) for each item of `index_batches`, in order, with up to `depth` of them ready ahead.

    [Note: no fork]
    A thread does the work, the one of `lane`, which is made once. A forked worker inherits every lock that another
    thread holds at that instant, locked for ever; that is how one of 384 data loaders of the BLOOM run hung at each
    third evaluation (pytorch#25158). Here nothing is forked, so it cannot happen. Reading a memory map and copying with
    numpy leave the interpreter's lock free while the step computes.

    An exception of `fetch` or of `index_batches` is raised by the `next` that would have given that item; every later
    `next` raises it again. `next` waits at most `timeout_s`, then raises D103.
    """

    def __init__(
        self,
        fetch: Callable[[Indices], Item],
        index_batches: Iterable[Indices],
        depth: int = 2,
        *,
        lane: Lane,
        timeout_s: float = 300.0,
    ) -> None:
        self._stop = threading.Event()
        if depth < 1:
            raise ValueError(f"depth must be at least 1, found {depth}")
        self._lane = lane
        self._timeout_s = timeout_s
        self._last: Exception | _End | None = None
        self._make = (_one, fetch, iter(index_batches), self._stop)
        # One is in the lane's hand while `depth` are ready.
        self._coming: deque[Result] = deque(lane.submit(*self._make) for _ in range(depth + 1))

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        if self._last is None and self._stop.is_set():
            raise RuntimeError("this loader is closed")
        if self._last is None:
            try:
                item = self._coming.popleft().result(self._timeout_s)
            except TimeoutError:
                raise self._late() from None
            except Exception as error:  # noqa: BLE001 (kept, and raised below)
                self._stop.set()
                self._last = error
            else:
                if not isinstance(item, _End):
                    self._coming.append(self._lane.submit(*self._make))
                    return item  # type: ignore[no-any-return]  # what `fetch` gave
                self._last = item
        if isinstance(self._last, _End):
            raise StopIteration
        raise self._last

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self._stop.set()

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> bool:
        """Whether nothing of it is left on the lane. Throws away what is ready, and waits at most `timeout_s`.

        False means that the lane is still inside `fetch`: a read that does not return. May be called again.
        """
        self._stop.set()
        end_s = time.monotonic() + timeout_s
        while self._coming:
            try:
                self._coming[0].exception(max(0.0, end_s - time.monotonic()))
            except TimeoutError:
                return False
            self._coming.popleft()
        return True

    def _late(self) -> EmberwardError:
        return EmberwardError(
            "the data loader gave no batch in time",
            code="D103",
            where=f"lane {self._lane.name}",
            expected=f"a batch within {self._timeout_s:g} s",
            found="the lane still reads",
            next="look at the file system that holds the data; emberward explain PID shows where the lane stands",
            cause=Cause.FILE_READ,
        )


class _End:
    """Stands for what comes after the last item."""


def _one(fetch: Callable[[Any], Any], indices: Iterator[Any], stop: threading.Event) -> Any:
    """The next item, or that there is none."""
    if stop.is_set():
        return _End()
    try:
        batch = next(indices)
    except StopIteration:
        return _End()
    try:
        return fetch(batch)
    except StopIteration as error:
        # Raised again by `next` it would end the data in silence, as inside a generator before PEP 479.
        raise RuntimeError("fetch raised StopIteration") from error
