"""What is not the same everywhere: facts of ranks or hosts beside each other. Pure."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

Key = TypeVar("Key", int, str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skew(Generic[Key]):
    """One fact that differs: who has which value, the most frequent value first, then by whoever has it.

    `odd`: those that differ from most; where no value has a majority, all of them.
    """

    name: str
    values: tuple[tuple[str, tuple[Key, ...]], ...]
    odd: tuple[Key, ...]
    has_majority: bool


def skews(facts: Mapping[Key, Mapping[str, str]]) -> tuple[Skew[Key], ...]:
    """The facts that differ, by name. `facts`: who -> name -> value; what only some have is no difference."""
    found = []
    for name in sorted({name for each in facts.values() for name in each}):
        values: dict[str, list[Key]] = defaultdict(list)
        for who, each in sorted(facts.items()):
            if name in each:
                values[each[name]].append(who)
        if len(values) < 2:
            continue
        most = max(values.values(), key=len)
        has_majority = 2 * len(most) > sum(map(len, values.values()))
        odd = sorted(who for holders in values.values() for who in holders if not (has_majority and holders is most))
        rows = sorted(values.items(), key=lambda row: row[1])
        rows.sort(key=lambda row: -len(row[1]))
        found.append(
            Skew(
                name=name,
                values=tuple((value, tuple(holders)) for value, holders in rows),
                odd=tuple(odd),
                has_majority=has_majority,
            )
        )
    return tuple(found)
