"""Buffers of a pipeline: how many of each kind a rank needs so that its schedule goes on and nothing is late.

[Note: buffers]
A pipeline rank holds three kinds of buffers for each of its stages, of which each counts one micro-batch:

- kept: what a forward leaves for its backward, from the forward's start to the end of B, or of W where the backward is
  split, which still needs a part of it;
- received: a result or a gradient that came from another rank, from the post of its receive to the end of the compute
  that needs it. A receive is posted one compute early, so that the transfer has that compute to hide behind;
- leaving: a result that nothing keeps (a gradient, and in evaluation a forward's), from the start of its compute until
  its send has ended, which has one compute to hide behind as well.

`plan_buffers` gives the most of each that a rank's program holds at once. With one host thread a rank these numbers are
the least: with one less the thread waits, in front of the event that gives the buffer back, for that very buffer. They
are full as well: no compute starts later than without bounds, for transfers that take up to a forward's time. A program
that holds less would post later or wait sooner, and some compute would be late (`_clock.py`). Tests hold all three
against the judge and `perf`'s timeline. Where ranks launch transfers in one order (`_edges.py` [Note: launches]), the
numbers are live and the least as well, and full only for free transfers: the order itself costs what it costs. With
several threads or streams a rank, as OneFlow has them, one buffer less may stay live and only be late; in libai#232 it
was not even live: the credit of stage 0 was 1, and the plan says 2.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from emberward.events import Acquire, Event, Observer, Release, Trace
from emberward.plan._edges import Launches
from emberward.plan._program import BufferKind, Pipe, pipeline_program
from emberward.plan._schedule import Schedule, Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffers:
    """`count` buffers of `kind` for `stage` on a pipeline rank. `work`: what they come from or go to; None: kept."""

    pp_rank: int
    stage: int
    kind: BufferKind
    work: Work | None
    count: int

    @property
    def credit(self) -> str:
        """Their name in programs."""
        return f"{self.kind.value} {self.stage}" + ("" if self.work is None else self.work.value)


def plan_buffers(schedule: Schedule, launches: Launches = Launches.EARLY) -> tuple[Buffers, ...]:
    """The buffers of every pipeline rank, the least that keep it live and full. See [Note: buffers]."""
    return tuple(each for pp_rank in range(schedule.num_ranks) for each in rank_buffers(schedule, pp_rank, launches))


@lru_cache(maxsize=64)
def rank_buffers(schedule: Schedule, pp_rank: int, launches: Launches) -> tuple[Buffers, ...]:
    """The buffers of one pipeline rank, in the order of their first use."""
    pipe = Pipe.over(range(schedule.num_ranks))
    program = pipeline_program(schedule, pipe, pp_rank, launches=launches, has_credits=True)
    return tuple(_buffers_of(pp_rank, name, count) for name, count in _peaks(program))


def _peaks(program: tuple[Event, ...]) -> Iterator[tuple[str, int]]:
    """The most units of each credit that a program holds at once, in the order of their first use."""
    held: dict[str, int] = {}
    peak: dict[str, int] = {}
    for event in program:
        match event.body:
            case Acquire(credit=name):
                held[name] = held.get(name, 0) + 1
                peak[name] = max(peak.get(name, 0), held[name])
            case Release(credit=name):
                held[name] -= 1
            case _:
                pass
    yield from peak.items()


def _buffers_of(pp_rank: int, name: str, count: int) -> Buffers:
    kind, _, where = name.partition(" ")
    work = None if where.isdigit() else Work(where[-1])
    stage = int(where if work is None else where[:-1])
    return Buffers(pp_rank=pp_rank, stage=stage, kind=BufferKind(kind), work=work, count=count)


def buffered_trace(schedule: Schedule, pipe: Pipe, *, launches: Launches = Launches.EARLY) -> Trace:
    """The programs of all ranks of one pipeline with their buffers as credits, as many as `plan_buffers` says."""
    return Trace(
        world_size=max(pipe.ranks) + 1,
        events={
            pipe.ranks[pp]: pipeline_program(schedule, pipe, pp, launches=launches, has_credits=True)
            for pp in range(schedule.num_ranks)
        },
        observer=Observer.PLAN,
        credits={(pipe.ranks[each.pp_rank], each.credit): each.count for each in plan_buffers(schedule, launches)},
    )
