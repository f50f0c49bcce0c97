"""Joins that copy again what an earlier join of the same line had copied. Needs torch.

[Note: joins that grow]
A join (``cat``) of new rows with what the same line had joined before copies all of that once more: a queue that is
rebuilt in each step, where the oldest rows could be written over, or a result that grows by a part each turn of a loop,
where a list and one join at the end would do. Of turns within a step that is so where nothing but the next join reads
what has been joined so far, and where it grew at least `MIN_TURNS` times.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from emberward.sources._picks import size_of, storage_of

Where = tuple[tuple[str, int], ...]
_JOINS = frozenset({"cat", "concat", "concatenate", "hstack", "vstack"})
MIN_TURNS = 4


@dataclass(slots=True)
class _Join:
    """What a join made: where, in which step, after how many joins of that line one into another, read by others."""

    where: Where
    num_bytes: int
    step: int
    turns: int = 1
    is_read: bool = False
    copied_ns: float = 0.0
    """Spent on what was joined before, with what the joins before it spent so in the step."""


class CopiesWatch:
    """Follows the joins of a step. All but `lines` is for the training thread."""

    def __init__(self) -> None:
        self._joins: dict[int, _Join] = {}
        """By storage."""
        self._spent: dict[Where, list[float]] = defaultdict(lambda: [0.0, 0.0])
        """Nanoseconds of copies that were made before, and of all calls."""
        self._step = 0

    def note(self, name: str, given: Sequence[torch.Tensor], made: Any, where: Where, took_ns: int) -> None:
        """A call that gave `made`; `where`: the program's lines around it, empty where a library made it."""
        self._spent[where][1] += took_ns
        is_join = bool(where) and name in _JOINS and isinstance(made, torch.Tensor)
        before = [(each, join) for each in given if (join := self._join_of(each)) is not None]
        if not is_join:
            for _, join in before:
                join.is_read = True
            return
        join = _Join(where, size_of(made), self._step)
        own = next(((each, old) for each, old in before if old.where[0] == where[0]), None)
        if own is not None:
            each, old = own
            copied_ns = took_ns * min(each.numel() / max(made.numel(), 1), 1.0)
            if old.step < self._step and not made.requires_grad:
                self._spent[where][0] += copied_ns
            elif old.step == self._step and not old.is_read:
                join.turns, join.copied_ns = old.turns + 1, old.copied_ns + copied_ns
                if join.turns >= MIN_TURNS:
                    self._spent[where][0] += join.copied_ns
                    join.copied_ns = 0.0
        self._joins[storage_of(made)] = join

    def stepped(self) -> None:
        """A step has ended."""
        self._step += 1

    def forget(self) -> None:
        """What was spent so far counts no more."""
        self._spent.clear()

    def stop(self) -> None:
        """Nothing is followed any more."""
        self._joins.clear()

    def lines(self) -> Iterator[dict[str, Any]]:
        """Lines of a file of operations: of each place with such copies their nanoseconds and those of all calls."""
        for where, (copied_ns, all_ns) in self._spent.items():
            if copied_ns:
                yield {"copies": [where, copied_ns, all_ns]}

    def _join_of(self, tensor: torch.Tensor) -> _Join | None:
        join = self._joins.get(storage_of(tensor))
        return join if join is not None and join.num_bytes == size_of(tensor) else None
