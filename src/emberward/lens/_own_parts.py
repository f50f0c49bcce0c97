"""Gathers of which each rank reads what it had given itself, and of what the step has gathered already. Pure.

See [Note: gathered for its own part] in `sources._parts`.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from emberward.findings import Cause
from emberward.lens._operations import OwnPart, RankOperations
from emberward.lens._source import Line
from emberward.lens._waste import Waste, fits, kept_s
from emberward.lens._work import RankWork, Transfer

_ASKING, _SCATTERING = "_c10d_functional::all_gather_into_tensor", "_c10d_functional::reduce_scatter_tensor"


def gathered_own_parts(work: RankWork, rank: RankOperations, ranks: Sequence[RankOperations]) -> Waste | None:
    """What such gathers cost a step, and what the other ranks' parts are copied and computed with; None without any."""
    del ranks
    parts = [each for each in rank.own_parts if not each.is_again]
    moved = moved_for_own_parts(work, rank)
    if not moved:
        return None
    cost_s = kept_s(work, rank, moved, _ASKING) + sum(each.took_s for each in parts)
    says = (
        f"{len(moved) / rank.num_steps:.0f} gathers a step, of which the rank reads the part that it gave "
        "itself, or one number of all, as a norm, which the parts give too"
    )
    return replace(_waste(parts, work, cost_s, says), transfers=tuple(moved))


def gathered_again(work: RankWork, rank: RankOperations, ranks: Sequence[RankOperations]) -> Waste | None:
    """What a step's gathers of what it has gathered already cost, with the scatters that autograd makes of them.

    Of calls of one size nobody knows which is which: they have a share of what all cost.
    """
    parts = [each for each in rank.own_parts if each.is_again]
    gathered, scattered = (_moved(parts, work, op) for op in ("allgather", "reduce_scatter"))
    num = sum(each.gathers for each in parts) * rank.num_steps
    num_scattered = sum(each.gathers for each in parts if not each.is_backward) * rank.num_steps
    if not gathered or not fits(sum(round(each.gathers) * each.num_bytes for each in parts), ranks):
        return None
    cost_s = min(num / len(gathered), 1.0) * kept_s(work, rank, gathered, _ASKING)
    if scattered:
        cost_s += min(num_scattered / len(scattered), 1.0) * kept_s(work, rank, scattered, _SCATTERING)
    says = (
        f"{num / rank.num_steps:.0f} gathers a step are of what the step has gathered already, as where several "
        "layers gather the one input that they share"
    )
    return _waste(parts, work, cost_s, says)


def moved_for_own_parts(work: RankWork, rank: RankOperations) -> list[Transfer]:
    """The gathers of which the rank reads what it had given."""
    return _moved([each for each in rank.own_parts if not each.is_again], work, "allgather")


def _moved(parts: Sequence[OwnPart], work: RankWork, op: str) -> list[Transfer]:
    """The calls of those sizes. Of one below a functional one the profiler shows what is given to it, or gives."""
    sizes = {size for each in parts for size in (each.num_bytes, each.given_bytes)}
    return [each for each in work.transfers if each.op.startswith(op) and each.num_bytes in sizes and not each.label]


def _waste(parts: Sequence[OwnPart], work: RankWork, cost_s: float, says: str) -> Waste:
    """At the line of the forward that asks for most of the parts, else of the backward."""
    asked: dict[Line, float] = defaultdict(float)
    for each in [part for part in parts if not part.is_backward] or parts:
        asked[each.where[0]] += each.gathers
    file, line = max(asked, key=lambda place: asked[place])
    return Waste(
        cause=Cause.GATHERED_TWICE,
        site=f"{file}:{line}",
        cost_s=cost_s,
        share=cost_s / work.pace.step_s,
        ranks=(work.rank,),
        evidence=(says,),
    )
