"""Buffers of a module that DDP sends from rank 0 before each forward. Pure.

[Note: broadcast buffers]
``DistributedDataParallel(broadcast_buffers=True)``, its default, makes the buffers of all ranks those of rank 0 before
each forward: statistics of a batch norm, and queues, caches and tables that a module keeps. The forward waits for it.
What it costs is what goes by from the moment at which the last rank comes to it until all have what was sent, packed
and unpacked: that the others wait for the last rank is not its doing.
"""

import bisect
import re
from collections import Counter
from collections.abc import Sequence

from emberward.findings import Cause
from emberward.lens._operations import MODULE, Operation, RankOperations
from emberward.lens._waste import Waste
from emberward.lens._work import RankWork

_FORWARD = "DistributedDataParallel.forward"
_BROADCAST = ":broadcast"
"""How a backend names it."""
_MOVES = re.compile(r"c10d::broadcast|aten::(cat|copy_|_foreach_copy_|split|narrow)")


def broadcast_buffers(work: RankWork, rank: RankOperations, ranks: Sequence[RankOperations]) -> Waste | None:
    """What a step spends in broadcasts that DDP makes before the module's own forward; None where there are none."""
    before = _before_forward(rank)
    transfers = [
        each
        for each in work.transfers
        if each.op.startswith("broadcast") and any(began_s <= each.began_s < ended_s for began_s, ended_s in before)
    ]
    steps = {bisect.bisect_right(rank.bounds_s, each.began_s) for each in transfers}
    if 2 * len(steps) <= rank.num_steps:
        return None
    met = zip(*(_sent(each) for each in ranks), strict=False)
    cost_s = work.pace.of((max(begin for begin, _ in each), max(end for _, end in each)) for each in met)
    num_bytes = sum(each.num_bytes for each in transfers) // rank.num_steps
    return Waste(
        cause=Cause.BROADCAST_BUFFERS,
        site=Counter(each.site for each in transfers).most_common(1)[0][0] or None,
        cost_s=cost_s,
        share=cost_s / work.pace.step_s,
        ranks=(work.rank,),
        evidence=(
            f"{len(transfers) / rank.num_steps:.0f} broadcasts a step before DDP's forward, {num_bytes:,} bytes in all",
        ),
    )


def _before_forward(rank: RankOperations) -> list[tuple[float, float]]:
    """From when to when DDP prepares a forward: up to the first module that runs inside."""
    modules = sorted(op.began_s for op in rank.operations if op.thread == rank.main and op.name.startswith(MODULE))

    def first_in(forward: Operation) -> float:
        index = bisect.bisect_right(modules, forward.began_s)
        return min(modules[index], forward.ended_s) if index < len(modules) else forward.ended_s

    forwards = [op for op in rank.operations if op.thread == rank.main and op.name == _FORWARD]
    return [(op.began_s, first_in(op)) for op in forwards]


def _sent(rank: RankOperations) -> list[tuple[float, float]]:
    """Of each forward with a broadcast before it: from when to when its buffers are packed, sent and unpacked."""
    moved = sorted(
        (op.began_s, op.ended_s)
        for op in rank.operations
        if (op.is_async and op.name.endswith(_BROADCAST)) or (op.thread == rank.main and _MOVES.match(op.name))
    )
    found = []
    for began_s, ended_s in _before_forward(rank):
        inside = [each for each in moved if began_s <= each[0] < ended_s]
        if inside:
            found.append((inside[0][0], min(max(end for _, end in inside), ended_s)))
    return found
