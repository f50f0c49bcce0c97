"""Where two observers of the same rank first disagree."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from emberward.events import Event, describe


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first event that differs; `index` counts from 0 in the order of issue. None: that side had ended."""

    rank: int
    index: int
    expected: Event | None
    found: Event | None

    def __str__(self) -> str:
        return (
            f"rank {self.rank}, event {self.index}: expected {_text(self.expected)}; found {_text(self.found)}"
            + self._fields()
        )

    def _fields(self) -> str:
        """Which facts differ when both sides are there."""
        if self.expected is None or self.found is None:
            return ""
        names = [
            field.name
            for field in dataclasses.fields(Event)
            if field.compare and getattr(self.expected, field.name) != getattr(self.found, field.name)
        ]
        return f" (differ in {', '.join(names)})"


def first_difference(expected: Sequence[Event], found: Sequence[Event]) -> Difference | None:
    """Where `found` first departs from `expected`, both of one rank; None when every event is equal.

    Compared are operation, group, root, shape, dtype, peer, tag, batch, lane, position, what it comes after, what a
    wait waits for, site and phase; not times, nor labels of groups and lanes.
    """
    for index, (one, other) in enumerate(zip_longest(expected, found)):
        if one != other:
            rank = one.rank if one is not None else other.rank
            return Difference(rank=rank, index=index, expected=one, found=other)
    return None


def _text(event: Event | None) -> str:
    if event is None:
        return "the end"
    site = "" if event.site is None else f" at {event.site}"
    return f"{describe(event.body)} on {event.lane}{site}"
