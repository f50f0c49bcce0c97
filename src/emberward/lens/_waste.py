"""Time that a step is longer by for work that need not be done, and whether there is memory to do without. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from emberward.findings import Cause
from emberward.lens._operations import RankOperations
from emberward.lens._spans import both
from emberward.lens._work import RankWork, Transfer


@dataclass(frozen=True, slots=True, kw_only=True)
class Waste:
    """Time that a step is longer by for work that was not needed.

    `transfers`: what it moves in all observed steps. Their cost is what they keep the training thread; where the ranks
    compute with all processors, no less than what making them takes ([Note: exposed time]).
    """

    cause: Cause
    site: str | None
    cost_s: float
    share: float
    ranks: tuple[int, ...]
    evidence: tuple[str, ...]
    transfers: tuple[Transfer, ...] = ()


def fits(num_bytes: int, ranks: Sequence[RankOperations]) -> bool:
    """Whether every rank could keep so many bytes more. Ranks of several hosts are taken to share one."""
    free = [rank.free_bytes for rank in ranks]
    return None not in free and num_bytes * len(ranks) <= min(each for each in free if each is not None)


def kept_s(work: RankWork, rank: RankOperations, transfers: Sequence[Transfer], issuing: str) -> float:
    """Seconds a step that they keep the training thread: exposed, or in operations `issuing`, that ask for one."""
    asking = [
        (op.began_s, op.ended_s)
        for op in rank.operations
        if op.thread == rank.main
        and not op.is_async
        and op.name.startswith(issuing)
        and any(op.began_s <= each.began_s <= op.ended_s for each in transfers)
    ]
    times = [(each.began_s, each.ended_s) for each in transfers]
    return work.pace.of([*both(work.exposed, times), *asking])
