"""Collectives that C++ issues inside the backward (DDP's): who comes late to them, and a place for them in the replay.

[Note: meetings of the backward]
No Python call tells of them, and gloo keeps no times; the probe saw in its steps that they are there. In the sampled
steps all of a step's are taken as one meeting, at the end of the backward: a rank comes to it when what it did on a
processor there is done, and leaves when the backward returns. What it did not spend on a processor meanwhile is its
wait. So a stall before a rank's backward makes the other ranks wait in the replay as it does in the job.
"""

import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from emberward.events import Group, Lane, LaneKind
from emberward.findings import Cause
from emberward.lens._operations import BACKWARD, RankOperations
from emberward.lens._overlap import MIN_LATE_STEPS, MIN_RANKED_STEPS, Call, Exposed
from emberward.lens._samples import MIN_COST_S, MIN_SHARE, RankSamples
from emberward.lens._slowdown import excess_line
from emberward.lens._work import Work, both, length_of, step_of

ENGINE = "_engine_run_backward"
"""The function of torch (torch/autograd/graph.py, 2.13) in which a thread stands while C++ runs the backward."""
OF_BACKWARD = 1_000_000
"""Index of the group of these meetings, which torch has none of."""


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
    steps = set.intersection(*(set(waits) for waits in by_rank.values())) if by_rank else set()
    for step in sorted(steps):
        yield tuple(_call(rank, group, step, *by_rank[rank.rank][step]) for rank in samples)


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
            last_s = rank.bounds_s[step - rank.first_step + 1]
            found[step] = idle[step], min(moment[step] / seconds + seconds / 2, last_s)
    return found


def _call(rank: RankSamples, group: Group, step: int, wait_s: float, ended_s: float) -> Call:
    begun_s = max(ended_s - wait_s, rank.bounds_s[step - rank.first_step])
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


def late_in_backward(work: Work, ranks: Sequence[RankOperations], samples: Sequence[RankSamples]) -> Iterator[Exposed]:
    """The rank for which the others wait in nearly every observed step, by its arrival at each collective."""
    if work.num_steps < MIN_RANKED_STEPS or len(work.ranks) < 2:
        return
    totals: list[dict[int, float]] = [defaultdict(float) for _ in range(work.num_steps)]
    """Of each step: by the rank that came last, seconds that each of the others waited on average."""
    by_rank = {rank.rank: rank for rank in ranks}
    for rank in work.ranks:
        for each in rank.transfers:
            step = step_of(by_rank[rank.rank], each.began_s)
            arrived = work.last.get((each.key, each.number))
            if step is not None and step < work.num_steps and arrived is not None and arrived[1] != rank.rank:
                waited = both(rank.exposed, [(each.began_s, min(arrived[0], each.ended_s))])
                totals[step][arrived[1]] += length_of(waited) / (len(work.ranks) - 1)
    latest = [max(step, key=lambda rank: step[rank]) for step in totals if step]
    if len(latest) < MIN_RANKED_STEPS:
        return
    culprit = statistics.mode(latest)
    cost_s = statistics.fmean(step.get(culprit, 0.0) for step in totals)
    is_small = cost_s < max(MIN_SHARE * work.step_s, MIN_COST_S)
    line = excess_line(samples, culprit)
    if latest.count(culprit) < MIN_LATE_STEPS * len(latest) or is_small or line is None:
        return
    site, excess_s = line
    # What the observed steps wait for the sampled ones have to show as well: time that this rank alone spends.
    cost_s = min(cost_s, excess_s)
    if cost_s < max(MIN_SHARE * work.step_s, MIN_COST_S):
        return
    file, _, number = site.rpartition(":")
    yield Exposed(
        cause=Cause.LATE_PEER,
        site=site,
        issued_at=(file, int(number)),
        cost_s=cost_s,
        part=1.0,
        gain_s=cost_s,
        share=cost_s / work.step_s,
        ranks=(culprit,),
        waiting=tuple(rank.rank for rank in work.ranks if rank.rank != culprit),
        calls=len(work.ranks[0].transfers) / work.num_steps,
        what="collectives of the backward",
    )
