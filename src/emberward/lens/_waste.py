"""Time that a step is longer by for work that need not be done, and whether there is memory to do without. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from emberward.findings import Cause
from emberward.lens._operations import RankOperations


@dataclass(frozen=True, slots=True, kw_only=True)
class Waste:
    """Time that a step is longer by for work that was not needed. `what` says how much of what."""

    cause: Cause
    site: str | None
    cost_s: float
    share: float
    ranks: tuple[int, ...]
    evidence: tuple[str, ...]


def fits(num_bytes: int, ranks: Sequence[RankOperations]) -> bool:
    """Whether every rank could keep so many bytes more. Ranks of several hosts are taken to share one."""
    free = [rank.free_bytes for rank in ranks]
    return None not in free and num_bytes * len(ranks) <= min(each for each in free if each is not None)
