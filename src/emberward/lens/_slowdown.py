"""When steps became slower, by how much, for whom, in which part; and what one run spends that another does not. Pure.

The change itself and whose it is are `health.RankSlowdownWatch`'s, with its rules and their sources. What it lies in is
the part of a step whose own change makes up most of it: a part that grew by less than MAIN_SHARE of the whole is not
named.
"""

import re
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from emberward.findings import Cause, Certainty, Finding, FindingPhase, Kind, Severity, ranks_text
from emberward.health import GrownRanks, Growth, RankSlowdownWatch, Slowdown, grown_ranks
from emberward.lens._causes import tell
from emberward.lens._samples import USER, RankSamples, Sampled, is_backward
from emberward.lens._source import Sources

MAIN_SHARE = 0.8
"""Of a change, for one part to be what changed (`late_ranks` and the judge of hangs ask for no less)."""
MIN_COMPARED = 0.03
"""Of a step: a smaller difference between two runs is not told; `SlowdownWatch` has the same bound within a run."""
MAX_PARTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a step and its seconds before and now."""

    name: str
    before_s: float
    now_s: float

    @property
    def change_s(self) -> float:
        """How much longer it takes now."""
        return self.now_s - self.before_s


def changes_of(
    step_s: Mapping[int, float], own_s: Mapping[int, Mapping[int, float]] | None = None
) -> tuple[Slowdown, ...]:
    """The lasting changes for the worse in a series of step lengths, in order, with the ranks whose changes they are.

    `own_s`: rank -> step -> seconds that the rank spent outside of waiting for others, where that is known.
    """
    watch, own = RankSlowdownWatch(), own_s or {}
    turns: list[Slowdown] = []
    for step in sorted(step_s):
        known = {rank: by_step[step] for rank, by_step in own.items() if step in by_step}
        turns += watch.see(step=step, step_s=step_s[step], own_s=(known,) if len(known) == len(own) > 0 else ())
    begun = [turn for turn in turns if not turn.is_over]
    # What holds still is known better now: more steps were seen since.
    return tuple(watch.attributed(turn) if turn in watch.now and not turn.grown.members else turn for turn in begun)


def parts_around(change: Slowdown, parts: Mapping[str, Mapping[int, float]], *, width: int = 20) -> tuple[Part, ...]:
    """Each part's median in the `width` steps before the change and in those from it on, the most changed first."""
    found = []
    for name, by_step in parts.items():
        before = [by_step[step] for step in sorted(by_step) if step < change.first_step][-width:]
        after = [by_step[step] for step in sorted(by_step) if step >= change.first_step][:width]
        if before and after:
            found.append(Part(name=name, before_s=statistics.median(before), now_s=statistics.median(after)))
    return tuple(sorted(found, key=lambda part: -part.change_s))


def slowdown_finding(
    change: Slowdown,
    parts: Sequence[Part] = (),
    *,
    hosts: Mapping[int, str] | None = None,
    beside: Sequence[str] = (),
) -> Finding:
    """P104 of a change within a run. `hosts`: where ranks run. `beside`: what else happened within two steps of it."""
    found = _finding(
        f"steps take {_text(change.now_s)} since step {change.first_step} and took {_text(change.level_s)} before: "
        f"{100 * change.share:+.1f}%",
        parts,
        grown_s=change.now_s - change.level_s,
        first_step=change.first_step,
        grown=change.grown,
        hosts=hosts or {},
        next_step="look what began at that step: a save, an evaluation, another data file, another job on the host",
    )
    return replace(found, evidence=(*found.evidence, *(f"beside it: {each}" for each in beside)))


def compared_finding(
    before_s: float,
    now_s: float,
    parts: Sequence[Part],
    *,
    own_s: Sequence[Mapping[int, float]] = (),
    hosts: Mapping[int, str] | None = None,
    beside: Sequence[str] = (),
) -> Finding | None:
    """P104 of two runs; None when the second is not slower by MIN_COMPARED.

    `own_s`: of each run, rank -> seconds of a step outside of waiting for others. `beside`: what else differs.
    """
    if now_s <= before_s * (1 + MIN_COMPARED):
        return None
    found = _finding(
        f"a step of the second run takes {_text(now_s)} and one of the first {_text(before_s)}: "
        f"{100 * (now_s / before_s - 1):+.1f}%",
        parts,
        grown_s=now_s - before_s,
        first_step=None,
        grown=_grown_between(own_s, now_s - before_s),
        hosts=hosts or {},
        next_step="the parts above are ordered by what they take more",
    )
    return replace(found, evidence=(*found.evidence, *(f"beside it: {each}" for each in beside)))


def _grown_between(own_s: Sequence[Mapping[int, float]], grown_s: float) -> GrownRanks:
    """Of two runs of as many ranks; nobody of others."""
    if len(own_s) != 2 or own_s[0].keys() != own_s[1].keys():
        return GrownRanks()
    before, now = own_s
    return grown_ranks([Growth(rank=rank, before_s=before[rank], now_s=now[rank]) for rank in sorted(before)], grown_s)


def _finding(
    message: str,
    parts: Sequence[Part],
    *,
    grown_s: float,
    first_step: int | None,
    grown: GrownRanks,
    hosts: Mapping[int, str],
    next_step: str,
) -> Finding:
    main = parts[0] if parts and parts[0].change_s >= MAIN_SHARE * grown_s else None
    culprits = grown.culprits
    whose = _whose(grown, hosts) if culprits else ""
    return Finding(
        code="P104",
        severity=Severity.WARNING,
        kind=Kind.SLOWDOWN,
        cause=Cause.SLOW_RANK if culprits else Cause.UNKNOWN,
        certainty=Certainty.OBSERVED,
        message=message + whose + ("" if main is None else f"; it lies in {main.name}"),
        culprit_ranks=culprits,
        waiting_ranks=tuple(sorted(hosts.keys() - {*culprits})) if culprits else (),
        hosts=tuple(sorted({hosts[rank] for rank in culprits if rank in hosts})),
        phase=FindingPhase(step=first_step),
        evidence=(*_grown_evidence(grown), *(_part_text(part) for part in parts[:MAX_PARTS])),
        next=f"compare clocks, heat and neighbours of {ranks_text(culprits)} with another's" if culprits else next_step,
    )


def _whose(grown: GrownRanks, hosts: Mapping[int, str]) -> str:
    """Whose change it is, for the message; the host, where all ranks of it are named and it has several."""
    grown_s = statistics.median(each.grown_s for each in grown.members)
    names = {hosts.get(rank) for rank in grown.culprits}
    host = names.pop() if len(names) == 1 else None
    num_here = sum(name == host for name in hosts.values())
    where = f", all of host {host}," if host is not None and 1 < num_here == len(grown.culprits) else ""
    is_one = len(grown.culprits) == 1
    are, their = ("is", "its") if is_one else ("are", "their")
    return f"; {ranks_text(grown.culprits)}{where} {are} waited for, {_text(grown_s)} more of {their} own work"


def _grown_evidence(grown: GrownRanks) -> tuple[str, ...]:
    """What of the ranks' own work changed."""
    if grown.num_known < 2:
        return ()
    if grown.culprits:
        shown = grown.members[:MAX_PARTS]
        return tuple(f"own work of rank {each.rank}: {_text(each.before_s)}, now {_text(each.now_s)}" for each in shown)
    if grown.members:
        whom = "all" if len(grown.members) == grown.num_known else f"{len(grown.members)} of {grown.num_known}"
        return (f"the own work of {whom} ranks grew alike: what they share changed, not one of them",)
    return (f"the own work of none of the {grown.num_known} ranks grew by most of that: they wait longer in calls",)


def _text(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 10 else f"{1000 * seconds:.2f} ms"


def _part_text(part: Part) -> str:
    return f"{part.name}: {_text(part.before_s)}, now {_text(part.now_s)}"


def parts_by_step(ranks: Sequence[RankSamples], sources: Sources) -> dict[str, dict[int, float]]:
    """Seconds of each part in each step, on average over ranks: each stall, each line of the loop with its stalls."""
    parts: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    measured = [rank for rank in ranks if rank.num_steps]
    for rank in measured:
        steps = range(rank.first_step, rank.first_step + rank.num_steps)
        for sampled in rank.stacks:
            told, site = tell(sampled, rank, sources), loop_line(sampled, rank)
            names = [] if told is None else [f"{told.cause.value} at {told.site}"]
            names += [] if site is None else [f"line {site}"]
            for step, (seconds, _) in sampled.steps.items():
                for name in names if step in steps else ():
                    parts[name][step] += seconds / len(measured)
    first = max((rank.first_step for rank in measured), default=0)
    count = min((rank.num_steps for rank in measured), default=0)
    return {name: {k: by_step.get(k, 0.0) for k in range(first, first + count)} for name, by_step in parts.items()}


def own_by_step(ranks: Sequence[RankSamples]) -> dict[int, dict[int, float]]:
    """Rank -> step -> seconds of its training thread outside of waiting for other ranks, by its samples.

    Waiting is what the thread spends off the processor in torch's collectives and backward, as in `excess_line`.
    """
    found: dict[int, dict[int, float]] = {}
    for rank in (each for each in ranks if each.num_steps):
        own = dict.fromkeys(range(rank.first_step, rank.first_step + rank.num_steps), 0.0)
        for sampled in rank.stacks:
            waits = _waits(sampled, _WAITING)
            for step, (wall, cpu) in sampled.steps.items():
                if step in own:
                    own[step] += cpu if waits else wall
        found[rank.rank] = own
    return found


def _waits(sampled: Sampled, waiting: re.Pattern[str]) -> bool:
    """Whether the thread stands in such a call, below all of the program's own functions."""
    inside = takewhile(lambda place: place.owner != USER, sampled.stack)
    return any(waiting.search(place.file) for place in inside)


def loop_line(sampled: Sampled, rank: RankSamples) -> str | None:
    """The line at which the program's innermost function that every step ends in stands; None outside of them."""
    site = None
    for place, known in zip(reversed(sampled.stack), rank.loop, strict=False):
        if (place.file, place.function, place.first_line) != known:
            break
        site = place.site if place.owner == USER else site
    return site


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """A line of the loop at which a rank spends more than the others. `more_s`: seconds a step.

    `part`: of what it comes later than the last of the others, what goes once the work is dealt evenly; 1 where it is
    no work that all ranks do.
    """

    site: str
    more_s: float
    part: float


def excess_line(ranks: Sequence[RankSamples], culprit: int, *, has_operations: bool = True) -> Excess | None:
    """The line of the loop at which a rank spends most more than the median of the others.

    What a thread waits for in torch's collectives and in the backward is left out, for that is where the others wait;
    what the program itself does inside the backward, in an operation of its own or a hook, is not. Torch's modules have
    nothing to wait for on a processor: what they take longer there at equal work is another thread's or program's
    doing. A backward is longer where its forward is: what it takes more is the forward's, whose line can be changed.
    Ranks of which one does more of the same gain its distance to their mean, for the others then do more.
    `has_operations`: processor time in torch's modules and backward counts; else only what is outside of them.
    """
    own: dict[int, dict[tuple[bool, str], float]] = {rank.rank: defaultdict(float) for rank in ranks if rank.num_steps}
    """By whether it is the backward, and the line."""
    for rank in ranks:
        waiting = _WAITING_OR_MODULES if rank.device == "cpu" else _WAITING
        for sampled in rank.stacks if rank.num_steps else ():
            site = loop_line(sampled, rank)
            if site is not None:
                waits = _waits(sampled, waiting)
                busy = 1.0 if has_operations else 0.0
                seconds = sum(busy * cpu if waits else wall for wall, cpu in sampled.steps.values()) / rank.num_steps
                own[rank.rank][is_backward(sampled), site] += seconds
    others = [lines for rank, lines in own.items() if rank != culprit]
    if not others or not own.get(culprit):
        return None
    more = {
        key: seconds - statistics.median(lines.get(key, 0.0) for lines in others)
        for key, seconds in own[culprit].items()
    }
    key = max(more, key=lambda each: more[each])
    forwards = [each for each in more if not each[0]]
    forward = max(forwards, key=lambda each: more[each], default=key)
    if key[0] and more[forward] >= more[key] / MAX_BACKWARD:
        both = {rank: lines.get(forward, 0.0) + lines.get(key, 0.0) for rank, lines in own.items()}
        to_mean_s = both[culprit] - statistics.fmean(both.values())
        to_next_s = both[culprit] - max(seconds for rank, seconds in both.items() if rank != culprit)
        part = to_mean_s / to_next_s if to_next_s > to_mean_s else 1.0
        return Excess(site=forward[1], more_s=more[forward] + more[key], part=part)
    return Excess(site=key[1], more_s=more[key], part=1.0) if more[key] > 0 else None


MAX_BACKWARD = 4
"""Times its forward that a backward takes: twice its products, once more where they are computed again, and a sum."""


_WAITING = re.compile(r"torch/(distributed|autograd)/")
_WAITING_OR_MODULES = re.compile(r"torch/(distributed|autograd|nn)/")


def budget_of(parts: Mapping[str, Mapping[int, float]]) -> dict[str, float]:
    """The mean of each part over its steps."""
    return {name: statistics.fmean(by_step.values()) for name, by_step in parts.items() if by_step}


def compare_parts(before: Mapping[str, float], now: Mapping[str, float]) -> tuple[Part, ...]:
    """The parts of two budgets, what takes most more first; a stall comes before the line that it stands in."""
    parts = [
        Part(name=name, before_s=before.get(name, 0.0), now_s=now.get(name, 0.0)) for name in sorted({*before, *now})
    ]
    return tuple(sorted(parts, key=lambda part: (-round(part.change_s, 4), part.name.startswith("line "))))
