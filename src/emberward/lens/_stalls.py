"""What the steps of a job lost to stalls: by cause and line, over ranks. Pure.

[Note: cost and gain of a stall]
The cost is the time that the training thread spends in it, a step, on the rank where it is most. What would be gained
is less where other ranks, or the device, go on being waited for:

* the host's own work beside a device's: without the wait the two overlap, and the step can shrink by the smaller of
  them at most: the wait itself, or what the host does outside such waits;
* ranks that meet in every step end it together: the slowest rank's own time decides, without what it waits for others,
  so that a stall of a rank that has time to spare is worth nothing.
"""

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from emberward.findings import Cause
from emberward.lens._causes import DEVICE_WAITS, Told, tell
from emberward.lens._samples import RankSamples
from emberward.lens._source import Sources

MIN_SHARE = 0.01
"""Of a step: less is not told. The lens itself may cost up to 3% of a step, and its budget closes within 2%."""
MIN_COST_S = 0.00005
"""A step: shorter ones lie below what looks every 5 ms resolve in some fifty steps."""
MIN_STEPS = 2
"""What was seen in one step alone has no rate: a log line or a save every hundredth step is how it should be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStall:
    """One cause at one line on one rank: seconds a step, on average, and in how many steps."""

    told: Told
    rank: int
    cost_s: float
    num_steps: int
    busy_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """One cause at one line over all ranks. `cost_s` and `share` are of the rank where they are most."""

    cause: Cause
    site: str
    inner: str | None
    cost_s: float
    gain_s: float
    share: float
    ranks: tuple[int, ...]
    num_steps: int
    of_steps: int
    by_rank: Mapping[int, float] = field(default_factory=dict)


def stalls_of_rank(rank: RankSamples, sources: Sources) -> tuple[RankStall, ...]:
    """Every stall of one rank, the most costly first; without regard to how small it is."""
    wall: dict[tuple[Cause, str], dict[int, float]] = defaultdict(lambda: defaultdict(float))
    busy: dict[tuple[Cause, str], float] = defaultdict(float)
    told: dict[tuple[Cause, str], Told] = {}
    steps = range(rank.first_step, rank.first_step + rank.num_steps)
    for sampled in rank.stacks:
        found = tell(sampled, rank, sources)
        if found is None:
            continue
        key = found.cause, found.site
        told.setdefault(key, found)
        for step, (seconds, cpu) in sampled.steps.items():
            if step in steps:
                wall[key][step] += seconds
                busy[key] += cpu
    found_all = [
        RankStall(
            told=told[key],
            rank=rank.rank,
            cost_s=sum(by_step.values()) / len(steps),
            num_steps=len(by_step),
            busy_share=busy[key] / max(sum(by_step.values()), 1e-9),
        )
        for key, by_step in wall.items()
    ]
    return tuple(sorted(found_all, key=lambda each: -each.cost_s))


def find_stalls(ranks: Sequence[RankSamples], sources: Sources, *, waits_s: Mapping[int, float]) -> tuple[Stall, ...]:
    """The stalls worth a finding, the most costly first.

    `waits_s`: what each rank waits for others in its collectives, seconds a step; a rank that is missing waits none.
    """
    measured = [rank for rank in ranks if rank.num_steps]
    by_key: dict[tuple[Cause, str], list[RankStall]] = defaultdict(list)
    by_rank = {rank.rank: stalls_of_rank(rank, sources) for rank in measured}
    steps = {rank.rank: rank.measured_s / rank.num_steps for rank in measured}
    numbers = {rank.rank: rank.num_steps for rank in measured}
    own = {rank: max(step_s - waits_s.get(rank, 0.0), 0.0) for rank, step_s in steps.items()}
    for stalls in by_rank.values():
        for stall in stalls:
            by_key[stall.told.cause, stall.told.site].append(stall)
    found = []
    for (cause, site), each in by_key.items():
        worst = max(each, key=lambda stall: stall.cost_s)
        step_s = steps[worst.rank]
        if worst.num_steps < MIN_STEPS or worst.cost_s < max(MIN_SHARE * step_s, MIN_COST_S):
            continue
        savings = {stall.rank: _saving(stall, by_rank[stall.rank], steps[stall.rank]) for stall in each}
        gain_s = max(own.values()) - max(own_s - savings.get(rank, 0.0) for rank, own_s in own.items())
        found.append(
            Stall(
                cause=cause,
                site=site,
                inner=worst.told.inner,
                cost_s=worst.cost_s,
                gain_s=max(gain_s, 0.0),
                share=worst.cost_s / step_s,
                ranks=tuple(sorted(stall.rank for stall in each if stall.cost_s >= worst.cost_s / 2)),
                num_steps=worst.num_steps,
                of_steps=numbers[worst.rank],
                by_rank={stall.rank: stall.cost_s for stall in each},
            )
        )
    return tuple(sorted(found, key=lambda stall: -stall.cost_s))


def _saving(stall: RankStall, all_of_rank: Sequence[RankStall], step_s: float) -> float:
    """What a rank's own time shrinks by without the stall. See [Note: cost and gain of a stall]."""
    if stall.told.cause not in DEVICE_WAITS or stall.busy_share > 0.5:
        return stall.cost_s
    waits_s = sum(each.cost_s for each in all_of_rank if each.told.cause in DEVICE_WAITS and each.busy_share <= 0.5)
    return min(stall.cost_s, max(step_s - waits_s, 0.0))


def middle_step_s(ranks: Sequence[RankSamples]) -> float | None:
    """The median length of a step over all ranks; None when none was measured."""
    lengths = [length for rank in ranks for length in rank.step_s]
    return statistics.median(lengths) if lengths else None
