"""Which layers lie on which pipeline stage."""

import itertools
from collections.abc import Sequence


def balance(costs: Sequence[float], num_stages: int) -> tuple[int, ...]:
    """Number of consecutive items for each stage so that the dearest stage costs least; every stage gets one.

    Exact, by dynamic programming in O(items^2 x stages). Among equals it makes the later stages the longer ones: the
    first stages of 1F1B hold the most activations. Raises ValueError with fewer items than stages.
    """
    if not 1 <= num_stages <= len(costs):
        raise ValueError(f"cannot cut {len(costs)} items into {num_stages} stages")
    sums = [0.0]
    for cost in costs:
        sums.append(sums[-1] + cost)
    best = [sums[end] for end in range(len(costs) + 1)]
    cuts: list[list[int]] = []
    for stage in range(1, num_stages):
        row = [float("inf")] * (len(costs) + 1)
        cut = [0] * (len(costs) + 1)
        for end in range(stage + 1, len(costs) + 1):
            for start in range(stage, end):
                dearest = max(best[start], sums[end] - sums[start])
                if dearest < row[end]:
                    row[end], cut[end] = dearest, start
        best = row
        cuts.append(cut)
    bounds = [len(costs)]
    for cut in reversed(cuts):
        bounds.append(cut[bounds[-1]])
    bounds.append(0)
    bounds.reverse()
    return tuple(stop - start for start, stop in itertools.pairwise(bounds))
