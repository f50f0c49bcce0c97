"""Gradients that are reduced more often than the optimizer reads them. Pure.

[Note: reduced twice]
The optimizer reads gradients once a step. Where a step has several backwards, of micro-batches, and each of them
reduces the same gradients, all reductions but the last are for nothing: what is summed over micro-batches first can be
reduced once (``no_sync`` of DDP, ``set_requires_gradient_sync`` of FSDP2). Two backwards reduce the same when their
reductions have the same operations and sizes, in whatever order; those with an optimizer's step between them do not.
"""

import bisect
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from emberward.findings import Cause
from emberward.lens._operations import BACKWARD, Operation, RankOperations
from emberward.lens._waste import Waste, fits, kept_s
from emberward.lens._work import RankWork, Transfer

_REDUCTIONS = ("allreduce", "all_reduce", "reduce_scatter")
_OPTIMIZER = "Optimizer.step"


def reduced_again(work: RankWork, rank: RankOperations, ranks: Sequence[RankOperations]) -> Waste | None:
    """What the reductions of all backwards of a step but the last cost; None where each reduces something else.

    Shards need room for whole gradients meanwhile, which replicas have anyway.
    """
    backwards = sorted(
        (op for op in rank.operations if op.thread == rank.main and op.name.startswith(BACKWARD)),
        key=lambda op: op.began_s,
    )
    stepped = sorted(op.began_s for op in rank.operations if op.name.startswith(_OPTIMIZER))
    again: list[tuple[Operation, list[Transfer]]] = []
    for _, run in groupby(backwards, key=lambda op: (_step(rank, op), bisect.bisect(stepped, op.began_s))):
        reducing = [(op, own) for op in run if (own := _reductions(work, op))]
        kinds = [Counter((each.op, each.num_bytes) for each in own) for _, own in reducing]
        again += [pair for pair, kind in zip(reducing[:-1], kinds, strict=False) if kind == kinds[-1]]
    transfers = [each for _, own in again for each in own]
    # Most steps have them: a step now and then whose last micro-batch comes late is not worth a change.
    if 2 * len({_step(rank, op) for op, _ in again}) <= rank.num_steps:
        return None
    whole = max(sum(each.num_bytes for each in own) for _, own in again)
    if any(each.op.startswith("reduce_scatter") for each in transfers) and not fits(whole, ranks):
        return None
    cost_s = kept_s(work, rank, transfers, "FSDP::post_backward_reduce")
    sites = Counter(op.name.removeprefix(BACKWARD) for op, _ in again)
    return Waste(
        cause=Cause.REDUCED_TWICE,
        site=sites.most_common(1)[0][0] or None,
        cost_s=cost_s,
        share=cost_s / work.pace.step_s,
        ranks=(work.rank,),
        evidence=(
            f"{len(again) / rank.num_steps:.0f} backwards a step before the last one reduce what it reduces again: "
            f"{len(transfers) / rank.num_steps:.0f} calls, "
            f"{sum(each.num_bytes for each in transfers) // rank.num_steps:,} bytes",
        ),
        transfers=tuple(transfers),
    )


def _reductions(work: RankWork, backward: Operation) -> list[Transfer]:
    return [
        each
        for each in work.transfers
        if each.op.startswith(_REDUCTIONS) and backward.began_s <= each.began_s <= backward.ended_s
    ]


def _step(rank: RankOperations, op: Operation) -> int:
    return bisect.bisect_right(rank.bounds_s, op.began_s)
