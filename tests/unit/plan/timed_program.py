"""Runs programs on a clock of their own: when each compute ends, given what a compute and a transfer take.

A second opinion for tests, written from the vocabulary alone: lanes are FIFOs, a transfer begins when both sides stand
before it, an acquire waits for its unit, a wait for its event.
"""

from collections.abc import Callable

from emberward.events import Acquire, Compute, Event, Recv, Release, Send, Trace, Wait

Key = tuple[int, object, int]


class TimedProgram:
    """One run of a trace. `ends`: the end of each compute by its name; `is_over`: whether every lane came through."""

    def __init__(self, trace: Trace, *, cost: Callable[[str], float], transfer: float) -> None:
        self._cost, self._transfer = cost, transfer
        self._credits = trace.credits
        self._done: dict[Key, float] = {}
        self._ready: dict[tuple[object, ...], float] = {}
        self._acquired: dict[tuple[int, str], int] = {}
        self._released: dict[tuple[int, str], list[float]] = {}
        self.ends: dict[str, float] = {}
        lanes: dict[tuple[int, object], list[Event]] = {}
        for event in trace:
            lanes.setdefault((event.rank, event.lane), []).append(event)
        while any([self._go(lane) for lane in lanes.values()]):
            pass
        self.is_over = all(not lane for lane in lanes.values())

    def _go(self, lane: list[Event]) -> bool:
        """Completes what can complete at the head of `lane`; says whether anything did."""
        num_left = len(lane)
        while lane:
            event = lane[0]
            begin = self._begin(event)
            end = None if begin is None else self._end(event, begin)
            if end is None:
                break
            self._done[(event.rank, event.lane, event.position)] = end
            lane.pop(0)
        return len(lane) < num_left

    def _begin(self, event: Event) -> float | None:
        before = self._done.get((event.rank, event.lane, event.position - 1), 0.0)
        refs = [self._done.get((event.rank, ref.lane, ref.position)) for ref in event.after]
        return None if None in refs else max([before, *refs])

    def _end(self, event: Event, begin: float) -> float | None:
        match event.body:
            case Compute(name=name):
                self.ends[name] = begin + self._cost(name)
                return self.ends[name]
            case Wait(on=ref):
                done = self._done.get((event.rank, ref.lane, ref.position))
                return None if done is None else max(begin, done)
            case Send(peer=peer, tensor=tensor):
                return self._meet(("send", event.rank, peer, tensor), ("recv", event.rank, peer, tensor), begin)
            case Recv(peer=peer, tensor=tensor):
                return self._meet(("recv", peer, event.rank, tensor), ("send", peer, event.rank, tensor), begin)
            case Acquire(credit=name):
                return self._acquire((event.rank, name), begin)
            case Release(credit=name):
                self._released.setdefault((event.rank, name), []).append(begin)
                return begin
            case other:
                raise TypeError(f"not in a pipeline's program: {other}")

    def _meet(self, own: tuple[object, ...], peer: tuple[object, ...], begin: float) -> float | None:
        self._ready[own] = begin
        return None if peer not in self._ready else max(begin, self._ready[peer]) + self._transfer

    def _acquire(self, key: tuple[int, str], begin: float) -> float | None:
        taken, capacity = self._acquired.get(key, 0), self._credits[key]
        given = self._released.get(key, [])
        if taken - len(given) >= capacity:
            return None
        self._acquired[key] = taken + 1
        return begin if taken < capacity else max(begin, given[taken - capacity])
