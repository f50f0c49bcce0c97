"""What all ranks compute alike of rows that each has gathered. Pure. See [Note: computed by all ranks] in
`sources._of_all`."""

from collections.abc import Sequence
from typing import NamedTuple

from emberward.lens._operations import OfAll, RankOperations, Where


class ByAll(NamedTuple):
    """Of a place: the share of its time that each rank spends on what all compute, and its share of the backward."""

    share: float
    backward: float


def computed_by_all(ranks: Sequence[RankOperations]) -> dict[Where, ByAll]:
    """By place what no rank needs to compute but for its own rows, of the rank that spends the least on it.

    A backward goes the same way on all ranks where it begins at a number that all have computed alike.
    """
    if len(ranks) < 2:
        return {}
    places = set.intersection(*({*rank.of_all} for rank in ranks))
    return {where: each for where in places if (each := _by_all([rank.of_all[where] for rank in ranks])).share}


def _by_all(ranks: Sequence[OfAll]) -> ByAll:
    if len({len(each.calls) for each in ranks}) > 1:
        return ByAll(0.0, 0.0)
    alike = [
        calls
        for calls in zip(*(each.calls for each in ranks), strict=True)
        if calls[0][0] is not None and len({known for known, _, _ in calls}) == 1
    ]
    is_root_alike = any(ranks[0].roots) and len({each.roots for each in ranks}) == 1
    # Of so many ranks each could compute its own part.
    saved = 1 - 1 / len(ranks)
    shares = [sum(calls[at][1] for calls in alike) / max(each.all_ns, 1) for at, each in enumerate(ranks)]
    behind = [
        sum(calls[at][1] for calls in alike if calls[at][2]) / max(each.graph_ns, 1) for at, each in enumerate(ranks)
    ]
    return ByAll(saved * min(*shares, 1.0), saved * min(*behind, 1.0) if is_root_alike else 0.0)
