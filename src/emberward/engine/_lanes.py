"""Runs the host lanes of a program, each on a lane of the process, with credits between them.

[Note: two threads on one stage]
The forwards and the backwards of one stage may run at the same time where they share nothing but parameters that
neither changes. Each has its own tp communicator. The stage has no buffers of ZeRO's (`_zero.py`), whose hooks count
on one thread: it is whole on every dp rank (ZeRO-0, float32), and one all-reduce at the step's end sums its gradients.
Nothing of a forward runs again in a backward.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from emberward import lanes
from emberward.events import Acquire, Event, Lane, LaneKind, Release
from emberward.plan import HOST as MAIN

Do = Callable[[Event], None]


class Lanes(Protocol):
    """Runs what stands on several host lanes; `acquire` and `release` are called from inside, by `do`."""

    def run(self, events: Sequence[Event], do: Do, credits: Mapping[str, int]) -> None:
        """Does every event, each lane in its order. Blocks. Raises what `do` raised first."""

    def acquire(self, body: Acquire, /) -> object:
        """Takes one unit; waits for it, without a limit."""

    def release(self, body: Release, /) -> object:
        """Gives one unit back."""


class _LaneFailed(Exception):
    """Another lane of this rank has failed: this one ends too."""


class ThreadLanes:
    """The main lane on the calling thread, any other on the lane of the process that has its name.

    Its kernels go where the main lane's go: credits order host threads, and no streams.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._left: dict[str, int] = {}
        self._error: BaseException | None = None

    def run(self, events: Sequence[Event], do: Do, credits: Mapping[str, int]) -> None:
        """Does every event. See `Lanes`."""
        self._left, self._error = dict(credits), None
        (_, main), *others = by_host_lane(events).items()
        results = [
            lanes.lane(f"engine {lane.label}", finishes_at_exit=False).submit(partial(self._run_lane, lane_events, do))
            for lane, lane_events in others
        ]
        self._run_lane(main, do)
        for result in results:
            result.result()
        if self._error is not None:
            raise self._error

    def _run_lane(self, events: Sequence[Event], do: Do) -> None:
        try:
            for event in events:
                do(event)
        except _LaneFailed:
            pass
        except BaseException as error:  # noqa: BLE001 (a lane's thread hands on whatever ended it)
            with self._changed:
                self._error = self._error or error
                self._changed.notify_all()

    def acquire(self, body: Acquire) -> None:
        """Takes one unit. See `Lanes`."""
        with self._changed:
            while self._left[body.credit] == 0 and self._error is None:
                self._changed.wait()
            if self._error is not None:
                raise _LaneFailed
            self._left[body.credit] -= 1

    def release(self, body: Release) -> None:
        """Gives one unit back."""
        with self._changed:
            self._left[body.credit] += 1
            self._changed.notify_all()


def by_host_lane(events: Sequence[Event]) -> dict[Lane, list[Event]]:
    """The events of each host lane in order, the main one first; a transfer is posted by the lane of what it comes
    after."""
    found: dict[Lane, list[Event]] = {MAIN: []}
    for event in events:
        lane = event.lane
        if lane.kind is not LaneKind.HOST:
            lane = event.after[0].lane if event.after else MAIN
        found.setdefault(lane, []).append(event)
    return found
