"""Counts the groups that a process sees made, so that each has an identity. See `_event.py` [Note: groups]."""

from collections.abc import Sequence

from emberward.events._event import Group

_MEANINGLESS = ("undefined", "", "default_pg")


class GroupTable:
    """Counts groups by their ranks as this process sees them made, which is the same order on every rank."""

    def __init__(self) -> None:
        self._num_made: dict[tuple[int, ...], int] = {}

    def made(self, ranks: Sequence[int], *, label: str | None, is_world: bool = False) -> Group:
        """The group that is made now over `ranks`, in group order."""
        members = tuple(ranks)
        index = self._num_made.get(members, 0)
        self._num_made[members] = index + 1
        name = "world" if is_world else (None if label in _MEANINGLESS else label)
        return Group(ranks=members, index=index, label=name)
