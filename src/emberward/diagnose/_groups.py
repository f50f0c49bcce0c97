"""Who belongs to which group, over all dumps of an incident."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from emberward.diagnose._calls import GroupName, GroupPart, RankFlight


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """One group. `is_told` False when `members` are only those seen to call it; `index` counts the groups of the same
    members."""

    name: GroupName
    members: tuple[int, ...]
    is_told: bool
    index: int = 0

    @property
    def label(self) -> str:
        """How people call it."""
        name, desc = self.name
        plain = "default" if desc in ("default_pg", "") and name == "0" else desc
        plain = plain if plain and plain != "undefined" else f"group {name}"
        shown = ",".join(map(str, self.members)) if len(self.members) <= 8 else f"{len(self.members)} ranks"
        return f"{plain}[{shown}]"


class Groups:
    """The groups of an incident, each found by a rank and the name that rank's dump gives it.

    A group is its name and, where the dumps tell them, its members: two groups of one name and other members stay two.
    Where gloo tells no members, the world is everyone known, and another group those that were seen to call it.
    """

    def __init__(self, flights: Mapping[int, RankFlight], world: tuple[int, ...]) -> None:
        self._views: dict[tuple[GroupName, tuple[int, ...] | None], GroupView] = {}
        callers: dict[GroupName, set[int]] = defaultdict(set)
        numbers: Counter[tuple[int, ...]] = Counter()
        for rank, flight in flights.items():
            for name in flight.groups:
                callers[name].add(rank)
        for flight in flights.values():
            for name, part in flight.groups.items():
                key = (name, part.ranks)
                if key in self._views:
                    continue
                members, is_told = part.ranks, True
                if members is None:
                    is_world = name[1] == "default_pg" or name == ("0", "")
                    members = world if is_world else tuple(sorted(callers[name]))
                    is_told = is_world
                index = numbers[members]
                numbers[members] += 1
                self._views[key] = GroupView(name=name, members=members, is_told=is_told, index=index)

    def of(self, part: GroupPart) -> GroupView:
        """The group that this part is of."""
        return self._views[(part.name, part.ranks)]

    def __iter__(self) -> Iterator[GroupView]:
        yield from self._views.values()


def world_of(flights: Mapping[int, RankFlight], others: tuple[int, ...] = ()) -> tuple[int, ...]:
    """All ranks that the evidence speaks of, dumped or not: from 0 to the highest that a dump, group or stack names."""
    top = max((*flights, *others), default=-1)
    told = {part.ranks for flight in flights.values() for part in flight.groups.values() if part.ranks}
    top = max(top, *map(max, told), -1)
    return tuple(range(top + 1))
