"""Batches made ready ahead of time by one background thread."""

import atexit
import queue
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Self, TypeVar

from emberward.findings import Cause, EmberwardError

Item = TypeVar("Item")
Indices = TypeVar("Indices")
CLOSE_TIMEOUT_S = 10.0
_POLL_S = 0.5


class PrefetchLoader(Generic[Item]):
    """Yields fetch(indices) for each item of `index_batches`, in order, with up to `depth` of them ready ahead.

    [Note: no fork]
    One thread does the work. A forked worker inherits every lock that another thread holds at that instant, locked for
    ever; that is how one of 384 data loaders of the BLOOM run hung at each third evaluation (pytorch#25158). Here
    nothing is forked, so it cannot happen. Reading a memory map and copying with numpy leave the interpreter's lock
    free while the step computes.

    An exception of `fetch` or of `index_batches` is raised by the `next` that would have given that item; every later
    `next` raises it again. `next` waits at most `timeout_s`, then raises D103. The thread is a daemon and is told to
    stop at exit, so that a loader that nobody closed does not keep the program alive.
    """

    def __init__(
        self,
        fetch: Callable[[Indices], Item],
        index_batches: Iterable[Indices],
        depth: int = 2,
        *,
        timeout_s: float = 300.0,
        name: str = "emberward-loader",
    ) -> None:
        if depth < 1:
            raise ValueError(f"depth must be at least 1, found {depth}")
        self._ready: queue.Queue[Item | _Failed | _End] = queue.Queue(maxsize=depth)
        self._stop = threading.Event()
        self._timeout_s = timeout_s
        self._last: _Failed | _End | None = None
        self._thread = threading.Thread(
            target=_work, args=(fetch, iter(index_batches), self._ready, self._stop), name=name, daemon=True
        )
        self._thread.start()
        weakref.finalize(self, self._stop.set)
        _OPEN.add(self)

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        if self._last is None and self._stop.is_set():
            raise RuntimeError("this loader is closed")
        item: Item | _Failed | _End = self._wait() if self._last is None else self._last
        if isinstance(item, _End):
            self._last = item
            raise StopIteration
        if isinstance(item, _Failed):
            self._last = item
            raise item.error
        return item

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> bool:
        """Whether the thread has ended. Stops it, throws away what is ready, and waits at most `timeout_s`.

        False means that it is still inside `fetch`: a read that does not return. May be called again.
        """
        self._stop.set()
        end_s = time.monotonic() + timeout_s
        while self._thread.is_alive() and time.monotonic() < end_s:
            _drain(self._ready)
            self._thread.join(timeout=min(0.05, max(0.0, end_s - time.monotonic())))
        _drain(self._ready)
        _OPEN.discard(self)
        return not self._thread.is_alive()

    def _wait(self) -> "Item | _Failed | _End":
        """The next item from the thread. Raises D103 after `timeout_s`."""
        end_s = time.monotonic() + self._timeout_s
        while time.monotonic() < end_s:
            try:
                return self._ready.get(timeout=min(_POLL_S, self._timeout_s))
            except queue.Empty:
                if self._stop.is_set():
                    raise RuntimeError("this loader is closed") from None
                if not self._thread.is_alive() and self._ready.empty():
                    break
        raise EmberwardError(
            "the data loader gave no batch in time",
            code="D103",
            where=f"thread {self._thread.name}",
            expected=f"a batch within {self._timeout_s:g} s",
            found="the thread still reads" if self._thread.is_alive() else "the thread ended without a word",
            next="look at the file system that holds the data; emberward explain PID shows where the thread stands",
            cause=Cause.FILE_READ if self._thread.is_alive() else Cause.THREAD_DIED,
        )


class _Failed:
    """Stands in the queue for an item that could not be made."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class _End:
    """Stands in the queue after the last item."""


def _work(
    fetch: Callable[[Indices], Item],
    index_batches: Iterator[Indices],
    ready: "queue.Queue[Item | _Failed | _End]",
    stop: threading.Event,
) -> None:
    """The thread: make items until the indices end, something fails, or `stop` is set."""
    last: _Failed | _End = _End()
    try:
        for indices in index_batches:
            if stop.is_set() or not _put(ready, fetch(indices), stop):
                return
    except StopIteration as error:
        # Raised again by `next` it would end the data in silence, as inside a generator before PEP 479.
        wrapped = RuntimeError("fetch raised StopIteration")
        wrapped.__cause__ = error
        last = _Failed(wrapped)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the consumer must see it; a thread has no caller
        last = _Failed(error)
    _put(ready, last, stop)


def _put(ready: "queue.Queue[Item | _Failed | _End]", item: "Item | _Failed | _End", stop: threading.Event) -> bool:
    """Whether `item` went into the queue; False when `stop` was set first. Waits while the queue is full."""
    while not stop.is_set():
        try:
            ready.put(item, timeout=_POLL_S)
        except queue.Full:
            continue
        return True
    return False


def _drain(ready: "queue.Queue[Item | _Failed | _End]") -> None:
    """Take out what is in the queue, at most as much as it holds at once."""
    for _ in range(ready.maxsize + 1):
        try:
            ready.get_nowait()
        except queue.Empty:
            return


_OPEN: "weakref.WeakSet[PrefetchLoader[Any]]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Stop the threads of loaders that nobody closed, one second each, before the interpreter takes itself apart."""
    for loader in list(_OPEN):
        loader.close(timeout_s=1.0)
