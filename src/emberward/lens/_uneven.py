"""Ranks of which now one and now another has more to do in a step, so that the others wait for it. Pure.

[Note: uneven steps]
A late peer is one and the same rank. Where batches differ in length from rank to rank, each rank is late in some steps
and none in most: nobody is slow, the work is dealt unevenly. Waits alone do not show that, for ranks of any job come
late in turn by chance, or for want of a processor. So three things have to be so:

* the rank that comes last spends more time of its own than the others do: the cost is that, and no more than they wait;
* at least half of it at one line of the loop (`late_peer` asks no more of its line);
* in the observed steps what the ranks compute differs by step and rank, in operations that torch counts or in elements
  of their tensors, by a share that explains at least half of the cost.

Dealt evenly the ranks meet in the middle, so the gain is what the last one comes after the mean of all.

[Note: pace of a processor]
Of ranks on processors that compute the same, one may take longer for it in every step: its processor is slower, shares
a cache, or serves others too. That is no line's. So a late peer has to spend at least half of its cost outside of
torch's modules and backward, or to be given more to compute in the observed steps.
"""

import bisect
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from emberward.findings import Cause
from emberward.lens._calls import Call
from emberward.lens._dealt import dealt_at, runs_alike
from emberward.lens._operations import KERNEL, RankOperations
from emberward.lens._overlap import MIN_LATE_STEPS, MIN_RANKED_STEPS, Exposed, Overlap
from emberward.lens._samples import MIN_COST_S, MIN_GAIN, RankSamples
from emberward.lens._slowdown import excess_line, own_by_step
from emberward.lens._source import Sources

Late = Mapping[int, int]
"""By step the rank that the others waited for longest."""


def uneven_steps(
    overlap: Overlap, samples: Sequence[RankSamples], operations: Sequence[RankOperations]
) -> Exposed | None:
    """What ranks wait for each other in turn because their work differs; None where it does not, or one is late."""
    by_rank = {rank.rank: rank for rank in samples if rank.num_steps}
    if len(by_rank) < 2 or any(each.cause is Cause.LATE_PEER for each in overlap.found):
        return None
    waits, worst = _waits(overlap, by_rank)
    late = {step: max(by_last, key=lambda rank: by_last[rank]) for step, by_last in waits.items()}
    most = max(Counter(late.values()).values(), default=0)
    if len(late) < MIN_RANKED_STEPS or most >= MIN_LATE_STEPS * len(late) or worst is None:
        return None
    num_steps = min(rank.num_steps for rank in by_rank.values())
    step_s = statistics.fmean(rank.measured_s / rank.num_steps for rank in by_rank.values())
    seen_s = sum(by_last[late[step]] for step, by_last in waits.items()) / num_steps
    own_s = own_by_step(samples)
    # What a rank lacks a processor for is the host's doing and no rank's work: the wait for that is left out.
    cost_s = min(seen_s, sum(_more_s(own_s, step, rank) for step, rank in late.items()) / num_steps)
    usual_s = statistics.fmean(statistics.fmean(by_step.values()) for by_step in own_s.values())
    explained_s = _uneven_share(operations) * usual_s
    if explained_s < max(MIN_GAIN * step_s, MIN_COST_S) or explained_s < cost_s / 2:
        return None
    line = excess_line(_in_turn([*by_rank.values()], late), min(by_rank))
    if line is None or line.more_s < cost_s / 2:
        return None
    return Exposed(
        cause=Cause.IMBALANCE,
        site=line.site,
        issued_at=(worst.file, worst.line),
        cost_s=cost_s,
        part=cost_s / seen_s,
        share=cost_s / step_s,
        ranks=(),
        waiting=tuple(sorted(by_rank)),
        calls=len(late) / num_steps,
        what=f"{worst.op} {worst.group}" if worst.file else worst.op,
    )


def is_of_pace(late: Exposed, samples: Sequence[RankSamples], operations: Sequence[RankOperations]) -> bool:
    """Whether a late peer only takes longer for the same operations. See [Note: pace of a processor].

    False where the operations of a rank were not observed, and of other causes.
    """
    observed = {rank.rank for rank in operations if rank.num_steps}
    ranks = [rank for rank in samples if rank.num_steps]
    is_known = all(rank.device == "cpu" and rank.rank in observed for rank in ranks)
    if late.cause is not Cause.LATE_PEER or not is_known or len(ranks) < 2 or _is_given_more(late, operations):
        return False
    line = excess_line(ranks, late.ranks[0], has_operations=False)
    return line is None or line.more_s < late.cost_s / 2


def dealt(exposed: Exposed, operations: Sequence[RankOperations], sources: Sources) -> Exposed:
    """The same, at the line that deals out what ranks compute, where their operations are the same and not their sizes.

    See [Note: dealt unevenly].
    """
    is_uneven = exposed.cause is Cause.IMBALANCE or (
        exposed.cause is Cause.LATE_PEER and _is_given_more(exposed, operations)
    )
    site = dealt_at(exposed.site, sources) if is_uneven and runs_alike(operations) else None
    return exposed if site is None else replace(exposed, site=site, longer_at=exposed.site)


def _is_given_more(late: Exposed, operations: Sequence[RankOperations]) -> bool:
    """Whether a late peer has more to compute in the observed steps, by a share that explains half of its cost."""
    work = {rank.rank: [sum(each) / rank.num_steps for each in _amounts(rank)] for rank in operations if rank.num_steps}
    others = [each for rank, each in work.items() if rank != late.ranks[0]]
    if not others or late.ranks[0] not in work:
        return False
    usual = [max(statistics.fmean(each), 1.0) for each in zip(*others, strict=True)]
    more = max(own / each - 1 for own, each in zip(work[late.ranks[0]], usual, strict=True))
    return more * late.cost_s / late.share >= late.cost_s / 2


def _waits(
    overlap: Overlap, samples: Mapping[int, RankSamples]
) -> tuple[Mapping[int, Mapping[int, float]], Call | None]:
    """Step -> last rank -> seconds that the others wait on average; and the call that was longest waited in."""
    found: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    longest: tuple[float, Call | None] = (0.0, None)
    for calls in overlap.met:
        last = max(calls, key=lambda call: call.issued_s)
        own = samples[last.rank]
        step = own.first_step + bisect.bisect_right(own.bounds_s, last.issued_s) - 1
        for call in calls if len(calls) > 1 and not last.is_transfer else ():
            waited_s = max(min(last.issued_s, call.free_s) - call.blocked_s, 0.0) if call is not last else 0.0
            if waited_s > 0:
                found[step][last.rank] += waited_s / (len(calls) - 1)
                longest = max(longest, (waited_s, call), key=lambda each: each[0])
    return found, longest[1]


def _more_s(own_s: Mapping[int, Mapping[int, float]], step: int, rank: int) -> float:
    """What a rank spends in a step more than the others do on average."""
    others = [by_step.get(step, 0.0) for other, by_step in own_s.items() if other != rank]
    return own_s[rank].get(step, 0.0) - statistics.fmean(others)


def _in_turn(samples: Sequence[RankSamples], late: Late) -> list[RankSamples]:
    """The samples with the steps' ranks changed: the lowest rank has of each step what the late one did then."""
    order = sorted(rank.rank for rank in samples)
    place = {
        step: dict(zip([rank, *(other for other in order if other != rank)], order, strict=True))
        for step, rank in late.items()
    }
    return [
        replace(
            rank,
            stacks=tuple(
                replace(sampled, steps=steps)
                for other in samples
                for sampled in other.stacks
                if (
                    steps := {
                        step: cell
                        for step, cell in sampled.steps.items()
                        if step in place and place[step][other.rank] == rank.rank
                    }
                )
            ),
        )
        for rank in samples
    ]


def _uneven_share(ranks: Sequence[RankOperations]) -> float:
    """What the rank with most work of a step has more than the others on average, of the mean, over the observed steps.

    By operations or by elements of tensors, whichever differs more: time grows with the one or the other. 0 where fewer
    than two ranks were observed.
    """
    seen = [rank for rank in ranks if rank.num_steps]
    shares = [0.0]
    for amounts in zip(*(_amounts(rank) for rank in seen), strict=True) if len(seen) > 1 else ():
        steps = [(max(each), statistics.fmean(each)) for each in zip(*amounts, strict=False)]
        more = sum(most - mean for most, mean in steps) * len(seen) / (len(seen) - 1)
        shares.append(more / max(sum(mean for _, mean in steps), 1.0))
    return max(shares)


def _amounts(rank: RankOperations) -> tuple[list[float], list[float]]:
    """Operations that torch counts, and elements of the arguments of what computes, of each observed step."""
    flops, elements = [0.0] * rank.num_steps, [0.0] * rank.num_steps
    for op in rank.operations:
        step = bisect.bisect_right(rank.bounds_s, op.began_s) - 1
        if 0 <= step < rank.num_steps and not op.is_async and KERNEL.match(op.name):
            flops[step] += op.flops
            elements[step] += sum(math.prod(shape) for shape in op.shapes if shape)
    return flops, elements
