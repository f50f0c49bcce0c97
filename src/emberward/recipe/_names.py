"""Near misses among names."""

import difflib
from collections.abc import Iterable

from emberward.recipe._schema import keys


def closest(name: str, known: Iterable[str], *, most: int = 3) -> list[str]:
    """Up to `most` of `known` that `name` may have meant, the nearest first."""
    by_folded = {candidate.lower(): candidate for candidate in known}
    return [by_folded[near] for near in difflib.get_close_matches(name.lower(), by_folded, n=most, cutoff=0.6)]


def closest_keys(name: str, *, most: int = 3) -> list[str]:
    """Up to `most` keys that `name` may have meant: the same last word in another section, then near spellings."""
    *sections, last = name.split(".")
    by_last: dict[str, list[str]] = {}
    for key in keys():
        by_last.setdefault(key.rpartition(".")[2], []).append(key)
    same = sorted(by_last.get(last, []), key=lambda key: -difflib.SequenceMatcher(None, name, key).ratio())
    near = closest(name, keys()) if sections else []
    near_last = [key for word in closest(last, by_last) for key in by_last[word]]
    if sections:
        near_last = [key for key in near_last if key.startswith(f"{sections[0]}.")] + near_last
    return list(dict.fromkeys([*same, *near, *near_last]))[:most]
