"""Near misses among names."""

import difflib
from collections.abc import Iterable

from emberward.recipe._schema import keys

_LEAST_LIKENESS = 0.65
_SPREAD = 0.1


def closest(name: str, known: Iterable[str], *, most: int = 3) -> list[str]:
    """Up to `most` of `known` that `name` may have meant, the nearest first."""
    by_folded = {candidate.lower(): candidate for candidate in known}
    return [by_folded[near] for near in difflib.get_close_matches(name.lower(), by_folded, n=most, cutoff=0.6)]


def closest_keys(name: str, *, most: int = 3) -> list[str]:
    """Up to `most` keys that `name` may have meant, the nearest first; only those about as near as the nearest.

    The last word counts three times as much as the section, so that ``hiden`` and ``optim.hidden`` find model.hidden.
    """
    section, _, last = name.lower().rpartition(".")
    scores = {}
    for key in keys():
        key_section, _, key_last = key.rpartition(".")
        score = _likeness(last, key_last)
        if section:
            score = 0.75 * score + 0.25 * _likeness(section, key_section)
        scores[key] = score
    best = max(scores.values())
    near = [key for key, score in scores.items() if score >= max(_LEAST_LIKENESS, best - _SPREAD)]
    return sorted(near, key=lambda key: -scores[key])[:most]


def closest_options(name: str, options: Iterable[str]) -> list[str]:
    """The options, as ``--ranks``, that `name` may have meant rather than any key; the nearest first."""
    wanted = name.lower().replace("_", "-")
    scores = {option: _likeness(wanted, option.removeprefix("--")) for option in options}
    last = wanted.rpartition(".")[2].replace("-", "_")
    best_key = max(_likeness(last, key.rpartition(".")[2]) for key in keys())
    near = [option for option, score in scores.items() if score >= _LEAST_LIKENESS and score > best_key]
    return sorted(near, key=lambda option: -scores[option])[:1]


def _likeness(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()
