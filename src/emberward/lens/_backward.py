"""Collectives that C++ issues inside the backward (DDP's): a place for them among those that were met. Pure.

[Note: meetings of the backward]
No Python call tells of them, and gloo keeps no times; the probe saw in its steps that they are there. In the sampled
steps all of a step's are taken as one meeting, at the end of the backward: a rank comes to it when what it did on a
processor there is done, and leaves when the backward returns. What it did not spend on a processor meanwhile is its
wait. So a stall before a rank's backward makes the other ranks wait in the replay as it does in the job.

A backward that is shorter than the time between two snapshots is not seen in each step. The rank met the others there
all the same, without a wait: as long before the step's end as in the steps where it is seen, and no later than the
first of the others left. All ranks meet between the same of the program's own calls.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from emberward.events import Group, Lane, LaneKind
from emberward.lens._calls import OF_BACKWARD, Call
from emberward.lens._operations import BACKWARD, RankOperations
from emberward.lens._samples import ENGINE, RankSamples
from emberward.lens._work import Work


def has_hidden_calls(work: Work, ranks: Sequence[RankOperations], known: Mapping[int, Sequence[float]]) -> bool:
    """Whether every rank's backwards issue collectives that its ring does not have. `known`: when those were issued."""
    for rank, seen in zip(work.ranks, ranks, strict=True):
        inside = [(op.began_s, op.ended_s) for op in seen.operations if op.name.startswith(BACKWARD)]
        times = [each.began_s for each in rank.transfers if any(a <= each.began_s <= b for a, b in inside)]
        told = [at for at in known.get(rank.rank, ()) if any(a <= at <= b for a, b in inside)]
        if len(times) <= len(told):
            return False
    return len(work.ranks) > 1


def backward_meetings(samples: Sequence[RankSamples]) -> Iterator[tuple[Call, ...]]:
    """One meeting a step of the sampled ranks. See [Note: meetings of the backward]."""
    group = Group(ranks=tuple(rank.rank for rank in samples), index=OF_BACKWARD)
    by_rank = {rank.rank: _waits(rank) for rank in samples}
    tails = {rank.rank: _tail_s(rank, by_rank[rank.rank]) for rank in samples}
    steps = set.intersection(*(set(_steps(rank)) for rank in samples)) if any(by_rank.values()) else set()
    for step in sorted(steps):
        left_s = min((waits[step][1] for waits in by_rank.values() if step in waits), default=math.inf)
        yield tuple(
            _call(rank, group, step, *by_rank[rank.rank].get(step, (0.0, min(_end_s(rank, step) - tail_s, left_s))))
            for rank, tail_s in zip(samples, tails.values(), strict=True)
        )


def in_order(meeting: tuple[Call, ...], calls: Mapping[int, Sequence[Call]]) -> tuple[Call, ...]:
    """The meeting between the same calls of the program's on each rank, where most ranks have it.

    `calls`: of each rank, in order. A moment that the samples give is right to some milliseconds, and a call may lie
    nearer.
    """
    ranks = {call.rank for call in meeting}
    groups = {call.group for call in calls.get(min(ranks), ()) if ranks <= {*call.group.ranks} and not call.is_transfer}
    for group in groups:
        own = {rank: [call for call in calls.get(rank, ()) if call.group == group] for rank in ranks}
        before = {call.rank: sum(each.issued_s < call.issued_s for each in own[call.rank]) for call in meeting}
        number = statistics.mode(before.values())
        meeting = tuple(
            _between(
                call,
                own[call.rank][number - 1].free_s if before[call.rank] < number else -math.inf,
                own[call.rank][number].issued_s if before[call.rank] > number else math.inf,
            )
            for call in meeting
        )
    return meeting


def _between(call: Call, begin_s: float, end_s: float) -> Call:
    issued_s, ended_s = (min(max(each, begin_s), end_s) for each in (call.issued_s, call.ended_s))
    return replace(call, issued_s=issued_s, blocked_s=issued_s, ended_s=ended_s, free_s=ended_s)


def _steps(rank: RankSamples) -> range:
    return range(rank.first_step, rank.first_step + rank.num_steps)


def _end_s(rank: RankSamples, step: int) -> float:
    return rank.bounds_s[step - rank.first_step + 1]


def _tail_s(rank: RankSamples, waits: Mapping[int, tuple[float, float]]) -> float:
    """How long before the end of a step its backward ends; 0 where no step shows it."""
    return statistics.median([_end_s(rank, step) - ended_s for step, (_, ended_s) in waits.items()] or [0.0])


def _waits(rank: RankSamples) -> dict[int, tuple[float, float]]:
    """By step: seconds that the backward did not spend on a processor, and when it ended."""
    wall: dict[int, float] = defaultdict(float)
    idle: dict[int, float] = defaultdict(float)
    moment: dict[int, float] = defaultdict(float)
    for sampled in rank.stacks:
        if not sampled.stack or sampled.stack[0].function != ENGINE:
            continue
        for step, (seconds, cpu) in sampled.steps.items():
            at = step - rank.first_step
            if 0 <= at < rank.num_steps and step in sampled.at_s:
                wall[step] += seconds
                idle[step] += max(seconds - cpu, 0.0)
                moment[step] += seconds * sampled.at_s[step]
    found = {}
    for step, seconds in wall.items():
        if seconds > 0:
            found[step] = idle[step], min(moment[step] / seconds + seconds / 2, _end_s(rank, step))
    return found


def _call(rank: RankSamples, group: Group, step: int, wait_s: float, ended_s: float) -> Call:
    first_s = rank.bounds_s[step - rank.first_step]
    ended_s = max(ended_s, first_s)
    begun_s = max(ended_s - wait_s, first_s)
    return Call(
        rank=rank.rank,
        lane=Lane(kind=LaneKind.HOST),
        group=group,
        number=step,
        op="backward's collectives",
        num_bytes=0,
        issued_s=begun_s,
        ended_s=ended_s,
        blocked_s=begun_s,
        free_s=ended_s,
        file="",
        line=0,
        wait_line=0,
    )
