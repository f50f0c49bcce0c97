"""What the steps of a job lost to stalls: by cause and line, over ranks. Pure.

[Note: cost and gain of a stall]
The cost is the time that the training thread spends in it, a step, on the rank where it is most. The gain is what the
replay of the steps is shorter by when that time is taken out of it on each rank ([Note: replay]): less where another
rank is still waited for, or where the stall hid a transfer. Where it is a wait for a device, host and device
overlap without it. The device has work while the host issues some, in modules, the backward and the optimizer, and
until the wait is over; it stands still only while the host does something else. So no more is taken out than that: the
host's time outside such waits and outside what issues work, without the time for want of a processor, which no line
gives back. A host that is slower than the device it feeds gains more, up to all of its time outside such waits: a stall
that could gain nothing even so is not told.
"""

import math
import re
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from emberward.findings import Cause
from emberward.lens._causes import DEVICE_WAITS, MAX_BUSY, Told, tell
from emberward.lens._debug_modes import checks_s, switched_on_at
from emberward.lens._freed import with_freed
from emberward.lens._operations import RankOperations
from emberward.lens._python_work import with_python_work
from emberward.lens._replay import Cut, Edit, Replay
from emberward.lens._samples import MIN_COST_S, MIN_GAIN, MIN_SHARE, USER, Instruction, RankSamples, uncertainty
from emberward.lens._slowdown import loop_line
from emberward.lens._source import Sources
from emberward.lens._together import put_together

MIN_STEPS = 2
"""What was seen in one step alone has no rate: a log line or a save every hundredth step is how it should be."""
_FOR_OTHERS = frozenset({Cause.LOCK, Cause.DATA_WAIT, Cause.SAME_LANE})
"""Waits for other threads and processes of the host: where it lacks processors, as far as this rank lacked one, so did
they, and that much of the wait is the host's doing."""
HAND_OVER_S = 0.0013
"""What a step waits for a batch that a worker has ready (`benchmarks/worker_handover.py`): data that it
makes in less time itself are made well there."""
MIN_UNKNOWN = 2 * MIN_GAIN
"""Of a step: from there on work is told of which nobody knows whether it is needed."""
BUSY_SHARE = 0.05
"""Of the time that ranks wait for a processor: from there on the host is busy, and says so."""
MIN_OFTEN = 0.5
"""Of the steps in which a wait in every step would have been seen: in fewer, it is one every second step or less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStall:
    """One cause at one line on one rank: seconds a step, on average, and in how many steps.

    `seen`: by step, its seconds and when they were on average; None where the samples do not say. `collected_s`: how
    much of them are collections of garbage that it causes; `made_by`: of such collections, what causes them. `inside`:
    seconds by the program's innermost line below a DataLoader that works in the training process, and the outermost.
    """

    told: Told
    rank: int
    cost_s: float
    num_steps: int
    busy_share: float
    seen: Mapping[int, tuple[float, float | None]]
    collected_s: float = 0.0
    made_by: Cause | None = None
    inside: Mapping[tuple[str, str], float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """One cause at one line over all ranks. `cost_s` and `share` are of the rank where they are most.

    `asked_at`: of data that the training process makes itself, mostly at the line `site`, where the loop asks for it.

    `is_certain`: it gains enough of a step as that was. Else it would of one without waits for a processor, where the
    host was busy: what that would be, such a host does not tell.
    """

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
    asked_at: str | None = None
    is_certain: bool = True
    collected_s: float = 0.0
    made_by: Cause | None = None
    """As of `RankStall`, of the rank where the stall costs most: one change removes both, and both are in its gain."""


def stalls_of_rank(rank: RankSamples, sources: Sources) -> tuple[RankStall, ...]:
    """Every stall of one rank, the most costly first; without regard to how small it is."""
    wall: dict[tuple[Cause, str], dict[int, float]] = defaultdict(lambda: defaultdict(float))
    busy: dict[tuple[Cause, str], float] = defaultdict(float)
    moment: dict[tuple[Cause, str], dict[int, float]] = defaultdict(lambda: defaultdict(float))
    """Seconds times when they were, by step."""
    beside: dict[tuple[Cause, str], dict[int, list[tuple[float, float, str]]]] = defaultdict(lambda: defaultdict(list))
    """By step: when another thread was waited for, how long, and what it did."""
    told: dict[tuple[Cause, str], Told] = {}
    inside: dict[tuple[Cause, str], dict[tuple[str, str], float]] = defaultdict(lambda: defaultdict(float))
    steps = range(rank.first_step, rank.first_step + rank.num_steps)
    of_calls = with_freed(rank, [tell(sampled, rank, sources) for sampled in rank.stacks])
    each_told = with_python_work(rank, of_calls, sources)
    for sampled, found in zip(rank.stacks, each_told, strict=True):
        if found is None:
            continue
        key = found.cause, found.site
        told.setdefault(key, found)
        inner = _within_a_loader(sampled.stack)
        for step, (seconds, cpu) in sampled.steps.items():
            if step in steps:
                wall[key][step] += seconds
                busy[key] += cpu
                inside[key][inner] += seconds
                moment[key][step] += seconds * sampled.at_s.get(step, math.nan)
                if found.beside is not None and step in sampled.at_s:
                    beside[key][step].append((sampled.at_s[step], seconds, found.beside))
    collected: dict[tuple[Cause, str], float] = {}
    made_by: dict[tuple[Cause, str], Cause] = {}
    for key in [key for key in wall if key[0] is Cause.GC]:
        # Who makes the objects makes the collections: they go with the stall. Where they are most of it, both are told.
        others = [other for other in wall if other[1] == key[1] and other[0] is not Cause.GC]
        if not others:
            continue
        made = max(others, key=lambda other: sum(wall[other].values()))
        is_most = sum(wall[key].values()) >= sum(wall[made].values())
        collected[made], made_by[key] = sum(wall[key].values()), made[0]
        for into in (wall, moment):
            for step, seconds in into[key].items():
                into[made][step] += seconds
        busy[made] += busy[key]
        if not is_most:
            del wall[key]
    found_all = [
        RankStall(
            told=_behind_another(told[key], beside[key], sum(by_step.values())),
            rank=rank.rank,
            cost_s=sum(by_step.values()) / len(steps),
            num_steps=len(by_step),
            busy_share=busy[key] / max(sum(by_step.values()), 1e-9),
            seen={
                step: (seconds, None if math.isnan(moment[key][step]) or not seconds else moment[key][step] / seconds)
                for step, seconds in by_step.items()
            },
            collected_s=collected.get(key, 0.0) / len(steps),
            made_by=made_by.get(key),
            inside=inside[key],
        )
        for key, by_step in wall.items()
    ]
    return tuple(sorted(found_all, key=lambda each: -each.cost_s))


def retries_of_rank(rank: RankSamples) -> tuple[RankStall, ...]:
    """What steps in which the device's allocator tried again are longer by than the middle one of the others.

    No frame of Python's stands for a retry: its line is the one at which such steps take most more. Where there is no
    step without, nobody can say what they cost.
    """
    lengths = {rank.first_step + index: length for index, length in enumerate(rank.step_s)}
    without = [length for step, length in lengths.items() if step not in rank.retried]
    again = {step: lengths[step] for step in rank.retried if step in lengths}
    if len(without) < MIN_STEPS or len(again) < MIN_STEPS:
        return ()
    usual_s = statistics.median(without)
    seen = {step: (length - usual_s, None) for step, length in again.items()}
    site = _longer_at(rank, frozenset(again))
    cost_s = sum(more for more, _ in seen.values()) / rank.num_steps
    if site is None or cost_s <= 0:
        return ()
    told = Told(cause=Cause.ALLOCATOR_RETRY, site=site)
    return (RankStall(told=told, rank=rank.rank, cost_s=cost_s, num_steps=len(seen), busy_share=0.0, seen=seen),)


def _longer_at(rank: RankSamples, steps: frozenset[int]) -> str | None:
    """The line of the loop that takes most more in some steps than in the others; None where none does."""
    more: dict[str, float] = defaultdict(float)
    for sampled in rank.stacks:
        site = loop_line(sampled, rank)
        for step, (seconds, _) in sampled.steps.items():
            if site is not None and rank.first_step <= step < rank.first_step + rank.num_steps:
                more[site] += seconds / (len(steps) if step in steps else len(steps) - rank.num_steps)
    longest = max(more, key=lambda each: more[each], default=None)
    return longest if longest is not None and more[longest] > 0 else None


def _behind_another(told: Told, beside: Mapping[int, Sequence[tuple[float, float, str]]], total_s: float) -> Told:
    """The same, or `same_lane` where most of the wait is for what the other thread does before that which is awaited.

    What it does last in a step's wait is what the wait ends with.
    """
    before_s = 0.0
    for seen in beside.values():
        _, _, awaited = max(seen)
        before_s += sum(seconds for _, seconds, task in seen if task != awaited)
    return replace(told, cause=Cause.SAME_LANE) if before_s > total_s / 2 else told


def find_stalls(ranks: Sequence[RankSamples], sources: Sources, replay: Replay) -> tuple[Stall, ...]:
    """The stalls worth a finding, or a word where the host was busy, the most costly first.

    `replay` of the same ranks says what each would gain.
    """
    measured = [rank for rank in ranks if rank.num_steps]
    by_key: dict[tuple[Cause, str], list[RankStall]] = defaultdict(list)
    apart = {rank.rank: (*stalls_of_rank(rank, sources), *retries_of_rank(rank)) for rank in measured}
    by_rank = put_together(apart, measured, sources)
    steps = {rank.rank: rank.measured_s / rank.num_steps for rank in measured}
    served = {rank.rank: max(rank.measured_s - rank.queue_s, 0.0) / rank.num_steps for rank in measured}
    """A step without what its thread lacked a processor for, as its work on one is."""
    numbers = {rank.rank: rank.num_steps for rank in measured}
    own = {rank.rank: _own_s(rank, by_rank[rank.rank]) for rank in measured}
    unfed = {
        rank.rank: max(own[rank.rank] - (rank.queue_s / rank.num_steps) - _issuing_s(rank, sources), 0.0)
        for rank in measured
    }
    queued = {rank.rank: min(rank.queue_s / rank.measured_s, 1.0) for rank in measured}
    periods = {rank.rank: rank.period_s for rank in measured}
    for stalls in by_rank.values():
        for stall in stalls:
            by_key[stall.told.cause, stall.told.site].append(stall)
    found = []
    for (cause, site), each in by_key.items():
        worst = max(each, key=lambda stall: stall.cost_s)
        step_s = steps[worst.rank]
        served_s = served[worst.rank] if queued[worst.rank] >= BUSY_SHARE else step_s
        if worst.num_steps < MIN_STEPS or worst.cost_s < max(MIN_SHARE * served_s, MIN_COST_S):
            continue
        if _is_rare(worst, numbers[worst.rank], periods[worst.rank]):
            continue
        gain_s, most_s = (
            replay.gain_s(
                Edit(
                    cuts={
                        stall.rank: _cuts(stall, _saving(stall, free[stall.rank]) / stall.cost_s, replay)
                        for stall in each
                        if stall.cost_s > 0
                    }
                )
            )
            for free in (unfed, own)
        )
        sure = 1 - uncertainty([spent for spent, _ in worst.seen.values()], numbers[worst.rank])
        if cause in _FOR_OTHERS:
            sure *= 1 - queued[worst.rank]
        beyond_s = HAND_OVER_S if cause is Cause.DATA_WAIT and worst.busy_share > MAX_BUSY else MIN_COST_S
        sure_s = most_s * sure - beyond_s
        least = MIN_UNKNOWN if cause is Cause.PYTHON_WORK else MIN_GAIN
        is_enough = sure_s >= least * step_s or worst.busy_share * sure_s >= least * served[worst.rank]
        is_certain = worst.cost_s >= MIN_SHARE * step_s and is_enough
        if not is_certain and (served_s == step_s or most_s - beyond_s < least * served_s):
            continue
        made_at = _made_at(worst) if cause is Cause.DATA_WAIT else None
        found.append(
            Stall(
                cause=cause,
                site=made_at or site,
                asked_at=None if made_at is None else site,
                inner=worst.told.inner if made_at is None else None,
                cost_s=worst.cost_s,
                gain_s=gain_s,
                share=worst.cost_s / step_s,
                ranks=tuple(sorted(stall.rank for stall in each if stall.cost_s >= worst.cost_s / 2)),
                num_steps=worst.num_steps,
                of_steps=numbers[worst.rank],
                by_rank={stall.rank: stall.cost_s for stall in each},
                is_certain=is_certain,
                collected_s=worst.collected_s,
                made_by=worst.made_by,
            )
        )
    return tuple(sorted(found, key=lambda stall: -stall.cost_s))


def with_checks(
    stalls: Sequence[Stall], operations: Sequence[RankOperations], samples: Sequence[RankSamples], sources: Sources
) -> tuple[Stall, ...]:
    """The stalls, anomaly mode's with what its looks for NaN take on the rank on which that is most.

    Where stacks of few operations cost too little to be told, as of a few large convolutions, its looks may do alone.
    """
    steps = {rank.rank: rank for rank in samples}
    all_s = [(checks_s(each, steps[each.rank]), each.rank) for each in operations if each.rank in steps]
    looks_s, worst = max(all_s, default=(0.0, 0))
    if not looks_s:
        return tuple(stalls)
    if all(each.cause is not Cause.DEBUG_MODE for each in stalls):
        return (*stalls, *_looks(looks_s, steps[worst], sources))
    return tuple(
        replace(
            each,
            cost_s=each.cost_s + looks_s,
            gain_s=each.gain_s + looks_s,
            share=each.share * (each.cost_s + looks_s) / each.cost_s,
        )
        if each.cause is Cause.DEBUG_MODE
        else each
        for each in stalls
    )


def _looks(looks_s: float, rank: RankSamples, sources: Sources) -> Iterator[Stall]:
    """What looks for NaN cost alone, where that is enough and one line of the program switches them on."""
    site, share = switched_on_at([], rank, sources), looks_s / _step_s(rank)
    if site is not None and share >= MIN_GAIN and looks_s >= MIN_COST_S:
        yield Stall(
            cause=Cause.DEBUG_MODE,
            site=site,
            inner=None,
            cost_s=looks_s,
            gain_s=looks_s,
            share=share,
            ranks=(rank.rank,),
            num_steps=rank.num_steps,
            of_steps=rank.num_steps,
            by_rank={rank.rank: looks_s},
        )


def _step_s(rank: RankSamples) -> float:
    return rank.measured_s / rank.num_steps


def _within_a_loader(stack: Sequence[Instruction]) -> tuple[str, str]:
    """The program's innermost line below a DataLoader that works in this process, and the outermost; empty without."""
    index = next((i for i, place in enumerate(stack) if _LOADER.search(place.file)), 0)
    sites = [place.site for place in stack[:index] if place.owner == USER]
    return (sites[0], sites[-1]) if sites else ("", "")


_LOADER = re.compile(r"torch/utils/data/")


def _made_at(stall: RankStall) -> str | None:
    """The program's line at which a DataLoader spends most of its time in this process, else below which it does.

    None where neither is most.
    """
    for end in (0, 1):
        spent: dict[str, float] = defaultdict(float)
        for lines, seconds in stall.inside.items():
            spent[lines[end]] += seconds
        site = max(spent, key=lambda each: spent[each], default="")
        if site and spent[site] > sum(spent.values()) / 2:
            return site
    return None


def _is_rare(stall: RankStall, num_steps: int, period_s: float) -> bool:
    """Whether the host waits for its device in a few steps alone, for long: every N steps, as it should be.

    What it waits for there is mostly work that the device has to do anyway. A short wait in every step is seen in few
    steps too: in cost / period of them.
    """
    if not _waits_for_device(stall):
        return False
    return stall.num_steps < MIN_OFTEN * min(stall.cost_s / period_s, 1.0) * num_steps


def _waits_for_device(stall: RankStall) -> bool:
    return stall.told.cause in DEVICE_WAITS and not stall.told.is_host and stall.busy_share <= 0.5


def _cuts(stall: RankStall, share: float, replay: Replay) -> list[Cut]:
    """That share of the stall, where it was seen; in the middle of the step where that is not known."""
    cuts = []
    for step, (seconds, at_s) in stall.seen.items():
        middle_s = replay.middle_s(stall.rank, step)
        if middle_s is not None:
            cuts.append(Cut(at_s=middle_s if at_s is None else at_s, seconds=share * seconds))
    return cuts


def _saving(stall: RankStall, free_s: float) -> float:
    """What a rank's own time shrinks by without the stall, where `free_s` of it can go on beside the device."""
    return min(stall.cost_s, free_s) if _waits_for_device(stall) else stall.cost_s


def _own_s(rank: RankSamples, stalls: Sequence[RankStall]) -> float:
    """Seconds a step in which the host does not wait for its device."""
    waits_s = sum(each.cost_s for each in stalls if _waits_for_device(each))
    return max(rank.measured_s / rank.num_steps - waits_s, 0.0)


def _issuing_s(rank: RankSamples, sources: Sources) -> float:
    """Seconds a step in which the host gives its device work."""
    steps = range(rank.first_step, rank.first_step + rank.num_steps)
    total_s = 0.0
    for sampled in rank.stacks:
        if any(_ISSUES_WORK.search(place.file) for place in sampled.stack):
            told = tell(sampled, rank, sources)
            if told is None or told.cause not in DEVICE_WAITS:
                total_s += sum(seconds for step, (seconds, _) in sampled.steps.items() if step in steps)
    return total_s / rank.num_steps


_ISSUES_WORK = re.compile(r"torch/(nn/modules/module|autograd/\w+|optim/\w+)\.py$")


def middle_step_s(ranks: Sequence[RankSamples]) -> float | None:
    """The median length of a step over all ranks; None when none was measured."""
    lengths = [length for rank in ranks for length in rank.step_s]
    return statistics.median(lengths) if lengths else None
