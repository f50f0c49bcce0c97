"""Gathers of which each rank reads what it had given itself. Pure.

See [Note: gathered for its own part] in `sources._parts`.
"""

from collections import defaultdict
from collections.abc import Sequence

from emberward.findings import Cause
from emberward.lens._gathers import gathers_of
from emberward.lens._operations import RankOperations
from emberward.lens._source import Line
from emberward.lens._waste import Waste, kept_s
from emberward.lens._work import RankWork

_ASKING = "_c10d_functional::all_gather_into_tensor"


def gathered_own_parts(work: RankWork, rank: RankOperations, ranks: Sequence[RankOperations]) -> Waste | None:
    """What such gathers cost a step, and what the other ranks' parts are copied and computed with; None without any.

    They are told at the line of the forward that asks for most of them.
    """
    del ranks
    # Of a gather below a functional one the profiler shows what is given to it, or what it gives.
    sizes = {size for each in rank.own_parts for size in (each.num_bytes, each.given_bytes)}
    moved = [each for each in gathers_of(work) if each.num_bytes in sizes and not each.label]
    if not moved:
        return None
    asked: dict[Line, float] = defaultdict(float)
    for each in [part for part in rank.own_parts if not part.is_backward] or rank.own_parts:
        asked[each.where[0]] += each.gathers
    file, line = max(asked, key=lambda place: asked[place])
    cost_s = kept_s(work, rank, moved, _ASKING) + sum(each.took_s for each in rank.own_parts)
    return Waste(
        cause=Cause.GATHERED_TWICE,
        site=f"{file}:{line}",
        cost_s=cost_s,
        share=cost_s / work.step_s,
        ranks=(work.rank,),
        evidence=(
            f"{len(moved) / rank.num_steps:.0f} gathers a step, of which the rank reads the part that it gave "
            "itself, or one number of all, as a norm, which the parts give too",
        ),
        transfers=tuple(moved),
    )
