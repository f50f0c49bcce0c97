"""The likeliest sets of faults that explain failed tests: a search with a beam. See [Note: the posterior]."""

import math
from collections.abc import Sequence

import numpy as np

from emberward.doctor._faults import Explanation, Fault, Kind, Part

SPURIOUS = 1e-3
"""Share of tests of sound parts that fail all the same: a port in use, a full disk, a lost connection."""
LINK_BUNCH = (1.0, 10.0, 150.0)
"""A link is so much likelier to be bad where none, one, two or more others are: a bad batch of cables."""
NEAR = 5.0
"""And again where one of them has a common end with it: a bad board."""
LEAST_GAIN = math.log(2)
"""A fault that does not make the failures twice as likely is no part of an explanation."""
BEAM = 24
MAX_FAULTS = 8
MAX_HYPOTHESES = 400
MAX_POOL = 150
"""Faults that are tried beside others."""
MAX_GROWN = 300
MAX_EXPLANATIONS = 250


def search(
    faults: list[Fault],
    shows: np.ndarray,
    scores: np.ndarray,
    fails: np.ndarray,
    *,
    num_bad: int,
    bundles: Sequence[tuple[int, ...]],
) -> tuple[tuple[Explanation, ...], float]:
    """The likeliest sets of faults, and the logarithm of what they are worth together: breadth-first with a beam.

    `shows`: fault x failed trial, the chance that the fault shows in one try of it. `scores`: of each fault the
    logarithm of its prior and of what the passed tests say. `num_bad`: 1 where a link is known to be bad elsewhere.
    `bundles`: links with a common end that are tried in one step as well.
    """
    if not faults:
        return (Explanation((), 1.0),), float(fails.sum()) * math.log(SPURIOUS)
    # A candidate is one fault, or all of a bundle.
    members = [(index,) for index in range(len(faults))] + list(bundles)
    shows = np.array([*shows, *(1 - np.prod(1 - shows[list(each)], axis=0) for each in bundles)])
    shown = np.log1p(-np.clip(shows, 0.0, 0.9999))

    def failing(log_unshown: np.ndarray) -> np.ndarray:
        value: np.ndarray = np.log(1 - (1 - SPURIOUS) * np.exp(log_unshown)) @ fails
        return value

    is_link = np.array([faults[each[0]].part.kind in (Kind.LINK, Kind.CABLE) for each in members])
    num_links = is_link * np.array([len(each) for each in members])
    # Each candidate's score beside no, one, or two and more bad links.
    single = scores + np.log(LINK_BUNCH)[:, None] * is_link[: len(faults)]
    several = [[_score(each, scores, n) for each in bundles] for n in range(len(LINK_BUNCH))]
    beside = np.concatenate([single, np.array(several).reshape(len(LINK_BUNCH), -1)], axis=1)
    most = len(LINK_BUNCH) - 1
    alone = beside[min(num_bad, most)] + failing(shown)
    order = np.argsort(-alone, kind="stable")[:MAX_HYPOTHESES]
    found: dict[tuple[int, ...], float] = {(): float(failing(np.zeros(len(fails))))}
    found |= {(int(index),): float(alone[index]) for index in order}
    hopeful = np.argsort(-(beside[0] + (shows > 0.0) @ fails * -math.log(SPURIOUS)), kind="stable")[:MAX_POOL]
    pool = np.unique(np.concatenate([order[:BEAM], hopeful]))
    numbers = {part: number for number, part in enumerate({fault.part for fault in faults})}
    part_of = np.array([*(numbers[fault.part] for fault in faults), *range(-len(bundles), 0)])
    ends = np.full((len(members), 2), -1)  # of the pool's alone: no set holds another
    ends[pool] = [_ends([faults[index].part for index in members[place]]) for place in pool]
    base, total = order[:BEAM, None], alone[order[:BEAM]]
    best, cut = max(found.values()), -math.inf
    for depth in range(2, MAX_FAULTS + 1):
        # Axes: set of faults, its members, candidate to add.
        apart = np.not_equal(part_of[base][:, :, None], part_of[pool]).all(1)
        is_near = (
            np.equal(ends[base][:, :, None, :, None], ends[pool][:, None, :]).any((-1, -2)) & is_link[base][:, :, None]
        ).any(1) & (ends[pool, 0] >= 0)
        bad = np.minimum(num_bad + num_links[base].sum(1), most)
        prior = beside[bad][:, pool] + math.log(NEAR) * is_near
        so_far = failing(shown[base].sum(1))[:, None]
        with_it = failing(shown[base].sum(1)[:, None, :] + shown[pool])
        grown = total[:, None] - so_far + prior + with_it
        grown[~apart | (with_it - so_far < LEAST_GAIN)] = -math.inf
        likely = np.flatnonzero(grown.ravel() > best - 12)
        likely = likely[np.argsort(-grown.ravel()[likely], kind="stable")][:MAX_GROWN]
        # A set of so many faults is reached from as many smaller ones.
        weight = np.exp(grown.ravel() - best)
        weight[likely] = 0.0
        cut = float(np.logaddexp(cut, best + math.log(max(weight.sum() / depth, 1e-300))))
        level: dict[tuple[int, ...], float] = {}
        for place in likely:
            row, column = divmod(int(place), len(pool))
            level.setdefault(tuple(sorted((*map(int, base[row]), int(pool[column])))), float(grown[row, column]))
        if not level:
            break
        found |= level
        top = next(iter(level.values()))
        if top < best - 5:
            break
        best = max(best, top)
        kept = list(level)[:BEAM]
        base, total = np.array(kept), np.array([level[key] for key in kept])
    return _normalised(faults, members, found, cut)


def _score(bundle: tuple[int, ...], scores: np.ndarray, num_bad: int) -> float:
    """The score of links with a common end that are added beside so many bad ones."""
    most = len(LINK_BUNCH) - 1
    bunch = sum(math.log(LINK_BUNCH[min(num_bad + place, most)]) for place in range(len(bundle)))
    return float(scores[list(bundle)].sum()) + bunch + math.log(NEAR) * (len(bundle) - 1)


def _ends(parts: Sequence[Part]) -> tuple[int, int]:
    """The ends of a link, or the common end of several twice; (-1, -1) of other parts."""
    if parts[0].kind is not Kind.LINK:
        return (-1, -1)
    common = [int(end) for end in parts[0].key if all(end in part.key for part in parts)]
    return (common[0], common[-1])


def _normalised(
    faults: list[Fault], members: Sequence[tuple[int, ...]], found: dict[tuple[int, ...], float], cut: float
) -> tuple[tuple[Explanation, ...], float]:
    """The explanations, each once, with their shares of all that was weighed; `cut`: logarithm of what was dropped."""
    best = max(found.values())
    weights: dict[tuple[int, ...], float] = {}
    for key, score in found.items():
        named = tuple(sorted(index for candidate in key for index in members[candidate]))
        if len({faults[index].part for index in named}) == len(named):
            weights[named] = max(weights.get(named, 0.0), math.exp(score - best))
    total = sum(weights.values()) + math.exp(cut - best)
    best_first = sorted(weights.items(), key=lambda item: -item[1])[:MAX_EXPLANATIONS]
    explanations = tuple(
        Explanation(tuple(faults[index] for index in named), weight / total) for named, weight in best_first
    )
    return explanations, best + math.log(total)
