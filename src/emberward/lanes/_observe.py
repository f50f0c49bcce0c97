"""Who is told what orders the threads of lanes: the dry run writes it down. No torch."""

import contextlib
from collections.abc import Iterator
from typing import Any, Protocol


class Observer(Protocol):
    """Is told of each order between two threads. A point is what `point` gave in the one; `follow` names it in the
    other, whose acts from then on come after it. Must not raise or block."""

    def point(self) -> Any:
        """Names what the calling thread has done so far."""

    def follow(self, point: Any, /) -> None:
        """What the calling thread does from now on comes after `point`."""


class _Watched:
    """The observer of this process; None: nobody is told."""

    observer: Observer | None = None


WATCHED = _Watched()


@contextlib.contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """`observer` is told until the end. One at a time: RuntimeError if there is one."""
    if WATCHED.observer is not None:
        raise RuntimeError("lanes are observed already")
    WATCHED.observer = observer
    try:
        yield
    finally:
        WATCHED.observer = None
