"""Stages of a pipeline of which one has more to do than another, so that the others wait for it. Pure.

[Note: uneven stages]
Ranks that send to each other in the steps and hold other parameters than each other are stages of a pipeline, which is
as fast as its longest stage. A model is cut between its blocks, the modules that are numbered in their names
(`layers.3`): each takes the share of its rank's own time that it has of the rank's operations. Two stages are uneven
where blocks that move from the one that spends most of its own time to the one that spends least make the longer of
both shorter. The gain is by how much, for the best number of blocks; where one block is more than the difference,
nothing is told, however uneven the stages are, nor where the longest has not a block of operations more: then it is
its processor that is slower, or something else than blocks.
"""

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence

from emberward.findings import Cause
from emberward.lens._operations import RankOperations
from emberward.lens._overlap import Exposed, Overlap
from emberward.lens._samples import RankSamples
from emberward.lens._slowdown import excess_line, own_by_step
from emberward.lens._work import Work


def uneven_stages(
    overlap: Overlap, samples: Sequence[RankSamples], operations: Sequence[RankOperations], work: Work
) -> Exposed | None:
    """What the steps lose because one stage has blocks that another has time for; None where no block could move."""
    by_rank = {rank.rank: rank for rank in samples if rank.num_steps}
    sent = [calls[0] for calls in overlap.met if calls[0].is_transfer]
    own_s = {rank: statistics.fmean(by_step.values()) for rank, by_step in own_by_step(samples).items() if by_step}
    staged = {rank for call in sent for rank in call.group.ranks} & own_s.keys()
    if len(staged) < 2 or len(sent) < max(by_rank[rank].num_steps for rank in staged):
        return None
    longest, shortest = max(staged, key=lambda rank: own_s[rank]), min(staged, key=lambda rank: own_s[rank])
    held = [
        {(each.name, each.mark) for each in rank.parameters} for rank in operations if rank.rank in (longest, shortest)
    ]
    counted = {each.rank: each.modules for each in work.ranks}
    if len(held) < 2 or held[0] & held[1] or len(blocks := _blocks(counted[longest])) < 2:
        return None
    most, least = (sum(counted[rank].values()) for rank in (longest, shortest))
    block = statistics.fmean(blocks)
    block_s = own_s[longest] * block / max(most, 1)
    if most - least <= block:
        return None
    gain_s, num_moved = max(
        (own_s[longest] - max(own_s[longest] - num * block_s, own_s[shortest] + num * block_s), -num)
        for num in range(1, len(blocks))
    )
    line = excess_line([*by_rank.values()], longest)
    if gain_s <= 0 or line is None:
        return None
    cost_s = own_s[longest] - own_s[shortest]
    call = next(call for call in sent if longest in call.group.ranks)
    return Exposed(
        cause=Cause.IMBALANCE,
        site=line.site,
        issued_at=(call.file, call.line),
        cost_s=cost_s,
        part=gain_s / cost_s,
        share=cost_s * by_rank[longest].num_steps / by_rank[longest].measured_s,
        ranks=(longest,),
        waiting=tuple(sorted(staged - {longest})),
        calls=len(sent) / by_rank[longest].num_steps,
        what=(
            f"stages: rank {longest} spends {1000 * own_s[longest]:.1f} ms of a step itself, rank {shortest} "
            f"{1000 * own_s[shortest]:.1f}; of its {len(blocks)} blocks of {1000 * block_s:.1f} ms {-num_moved} could "
            "move; transfers"
        ),
    )


def _blocks(modules: Mapping[str, int]) -> list[int]:
    """The operations of each numbered block."""
    found = defaultdict[str, int](int)
    for name, flops in modules.items():
        parts = name.split(".")
        number = next((index for index, part in enumerate(parts) if part.isdigit()), None)
        if number is not None:
            found[".".join(parts[: number + 1])] += flops
    return [*found.values()]
