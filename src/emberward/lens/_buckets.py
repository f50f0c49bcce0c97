"""Buckets of DDP that are too small: many sums of few gradients, where one sum of many would do. Pure.

[Note: small buckets]
DDP sums gradients in buckets of 25 MB, after a first one of 1 MB (``bucket_cap_mb``), so that each sum takes more than
its start. Where the buckets of a backward are small (`SMALL_BYTES`) and many, all starts but one are for nothing: what
of these sums is exposed, or what of the processors on which the ranks compute the threads take that make them.
"""

import bisect
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from emberward.findings import Cause
from emberward.lens._gathers import times
from emberward.lens._operations import BACKWARD, RankOperations
from emberward.lens._overlap import MIN_TINY, SMALL_BYTES
from emberward.lens._spans import both
from emberward.lens._waste import Waste
from emberward.lens._work import RankWork, Transfer


def small_buckets(work: RankWork, rank: RankOperations, ranks: Sequence[RankOperations]) -> Waste | None:
    """What a step spends on starts of DDP's sums but one for each backward; None where there are few, or no DDP."""
    del ranks
    of_backwards = [(index, each) for index, each in _of_ddp(work, rank) if each.num_bytes <= SMALL_BYTES]
    small = [each for _, each in of_backwards]
    num_backwards = len({index for index, _ in of_backwards})
    if not rank.replicated or len(small) < MIN_TINY * max(num_backwards, rank.num_steps):
        return None
    starts = [replace(each, num_bytes=0) for each in small[num_backwards:]]
    share = sum(SMALL_BYTES / (SMALL_BYTES + each.num_bytes) for each in small) / len(small) * len(starts) / len(small)
    cost_s = share * work.pace.of(both(work.exposed, times(small)))
    return Waste(
        cause=Cause.TINY_MESSAGES,
        site=Counter(rank.replicated).most_common(1)[0][0] or None,
        cost_s=cost_s,
        share=cost_s / work.pace.step_s,
        ranks=(work.rank,),
        evidence=(
            f"DDP sums {len(small) / rank.num_steps:.0f} buckets a step of {SMALL_BYTES:,} bytes or less, "
            f"{sum(each.num_bytes for each in small) // rank.num_steps:,} bytes in all",
        ),
        transfers=tuple(starts),
    )


def _of_ddp(work: RankWork, rank: RankOperations) -> Iterator[tuple[int, Transfer]]:
    """The sums of a backward that no line of the program's asks for, each with the number of its backward."""
    spans = sorted((op.began_s, op.ended_s, op.name) for op in rank.operations if op.name.startswith(BACKWARD))
    for each in work.transfers:
        index = bisect.bisect_right(spans, (each.began_s,)) - 1
        began_s, ended_s, name = spans[index] if index >= 0 else (0.0, 0.0, "")
        is_inside = began_s <= each.began_s < ended_s
        if each.op.startswith("allreduce") and is_inside and name == f"{BACKWARD}{each.site}":
            yield index, each
