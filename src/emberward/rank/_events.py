"""What a rank's trainer tells of its run: its parts as they begin, and the recorded events of its first steps."""

import dataclasses
from pathlib import Path
from typing import Protocol

from emberward.events import Event, Lane, Observer, Phase, Ref, Trace, Wait, write_trace
from emberward.sources.recorder import live_recorder


class Enter(Protocol):
    """Is told the parts of a run as they begin; `count`: micro-batches of a step or set, tokens of a sample."""

    def __call__(self, phase: Phase, count: int | None = None, /) -> None: ...


def told(enter: Enter) -> Enter:
    """`enter` for a process whose ring, if it has one, is to know the parts of the run as well."""
    live = live_recorder()
    if live is None:
        return enter

    def both(phase: Phase, count: int | None = None, /) -> None:
        live.enter(phase)
        enter(phase, count)

    return both


class StepRecorder:
    """Keeps the events of the first `num_steps` steps of an attempt, then writes them as one trace and keeps no more.

    Positions in a lane go on from step to step: the trace is one program run several times. Rank 0 removes what an
    earlier attempt left, maybe of more ranks: no rank ends a step, and writes, before rank 0 is in it.
    """

    def __init__(self, path: Path, *, rank: int, world_size: int, num_steps: int) -> None:
        self._path = path
        self._rank = rank
        self._world_size = world_size
        self._num_left = num_steps
        self._events: list[Event] = []
        if rank == 0:
            for stale in path.parent.glob("rank*.jsonl"):
                stale.unlink(missing_ok=True)

    @property
    def is_recording(self) -> bool:
        """Whether the next step is to be recorded."""
        return self._num_left > 0

    def put(self, event: Event) -> None:
        """Takes one event of the step under way."""
        self._events.append(event)

    def end_step(self) -> None:
        """Counts a step; after the last one writes the file, whole or not at all."""
        self._num_left -= 1
        if self._num_left == 0:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            trace = Trace(
                world_size=self._world_size, events={self._rank: renumber(self._events)}, observer=Observer.LIVE
            )
            write_trace(trace, self._path)
            self._events = []


def renumber(events: list[Event]) -> tuple[Event, ...]:
    """Events of consecutive programs as one: each program's positions begin at 0 and are shifted past the last's."""
    first: dict[Lane, int] = {}
    seen: dict[Lane, int] = {}
    out = []
    for event in events:
        lane = event.lane
        if event.position == 0 and lane in seen:
            first[lane] = seen[lane]
        shifted = first.get(lane, 0) + event.position
        seen[lane] = shifted + 1
        body = event.body
        if isinstance(body, Wait):
            body = Wait(on=Ref(lane=body.on.lane, position=first.get(body.on.lane, 0) + body.on.position))
        after = tuple(Ref(lane=ref.lane, position=first.get(ref.lane, 0) + ref.position) for ref in event.after)
        out.append(dataclasses.replace(event, position=shifted, body=body, after=after))
    return tuple(out)
