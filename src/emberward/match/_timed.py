"""When the events of a trace end, from how long each of them takes: the run of the simulator with a clock."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from emberward.events import Event, Trace
from emberward.match._simulate import simulate
from emberward.match._table import Step, compile_trace
from emberward.match._verdict import RENDEZVOUS, BatchCompletion


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """The earliest end of each event, and the event whose end it waited for last: None for one that waited for none.

    Indices run over `events`.
    """

    events: tuple[Event, ...]
    end_s: tuple[float, ...]
    held_by: tuple[int | None, ...]

    @property
    def total_s(self) -> float:
        """When the last event ends."""
        return max(self.end_s, default=0.0)

    def critical_path(self) -> Iterator[tuple[Event, float]]:
        """The events that the last end waited for, backwards, with the seconds of each; they add up to `total_s`."""
        at = max(range(len(self.events)), key=self.end_s.__getitem__, default=None)
        while at is not None:
            before = self.held_by[at]
            yield self.events[at], self.end_s[at] - (0.0 if before is None else self.end_s[before])
            at = before


class Clockwork:
    """A trace that can be run again and again with other durations. Sends are taken to wait for their receives."""

    def __init__(self, trace: Trace) -> None:
        """Raises ValueError for a trace that does not end."""
        self._table = compile_trace(trace, BatchCompletion.TOGETHER)
        run = simulate(self._table, RENDEZVOUS)
        if not run.finished:
            raise ValueError("the trace does not end")
        self._order = run.order
        self._needs = [tuple(self._needed(e)) for e in range(len(self._table.events))]

    def run(self, duration_s: Callable[[Event], float]) -> Timed:
        """The times when an event takes `duration_s` after what it waits for: its lane, its peers, what it names."""
        events = self._table.events
        end_s = [0.0] * len(events)
        held_by: list[int | None] = [None] * len(events)
        for e in self._order:
            last = max(self._needs[e], key=end_s.__getitem__, default=None)
            held_by[e] = last
            end_s[e] = (0.0 if last is None else end_s[last]) + duration_s(events[e])
        return Timed(events=tuple(events), end_s=tuple(end_s), held_by=tuple(held_by))

    def _needed(self, e: int) -> Iterator[int]:
        table, arg, number = self._table, self._table.arg[e], self._table.number[e]
        match table.step[e]:
            case Step.MEET:
                for member in table.instance_events[arg]:
                    yield from self._before(member)
                return
            case Step.SEND | Step.RECV:
                channel = table.channels[arg]
                for side in (channel.sends, channel.recvs):
                    if number < len(side):
                        yield from self._before(side[number])
            case Step.ACQUIRE:
                credit = table.credits[arg]
                if number >= credit.capacity:
                    yield credit.releases[number - credit.capacity]
            case Step.STORE_WAIT:
                yield from table.key_setters[arg][:1]
            case _:
                pass
        yield from self._before(e)

    def _before(self, e: int) -> Iterator[int]:
        """What lets the event start: the unit before it in its lane, and what it or its unit names."""
        table = self._table
        before = table.unit_before[table.unit[e]]
        if before >= 0:
            yield from table.unit_events[before]
        for member in table.unit_events[table.unit[e]]:
            yield from table.targets.get(member, ())
