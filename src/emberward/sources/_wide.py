"""What is computed in 64 bits because one factor happened to have them. Needs torch.

[Note: numbers of 64 bits]
An operation on float32 and float64 tensors computes in float64, and so does all that is made of its result: tables
that came from NumPy, constants of `torch.tensor` in a program whose default type they are not. Where the program never
asks for float64 there (`double()`, `to`, `dtype=`), nobody wants these digits: they take twice the memory and on a
processor twice the time of an operation in float32, on most GPUs far more. A program whose own parameters are of
64 bits wants them; so does what asks for a copy or a table of that type in the step itself.
"""

import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

Where = tuple[tuple[str, int], ...]
FOR_NOTHING = 0.5
"""Of what an operation in float64 takes."""
_ASKS = frozenset({"double", "to", "type", "type_as"})
_WIDE, _NARROW = torch.float64, (torch.float32, torch.bfloat16, torch.float16)


class WideWatch:
    """Follows the calls of a step. All but `lines` is for the training thread."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Callable[[], torch.Tensor | None], Where]] = {}
        """By object what became wide, and where it did."""
        self._spent: dict[Where, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
        """Nanoseconds of wide calls, of all calls, and of wide ones with a backward."""
        self._became: dict[Where, Where] = {}
        self._asked: dict[int, Callable[[], torch.Tensor | None]] = {}
        """By object what the program wants in 64 bits."""
        self._graph_ns = 0

    def note(
        self, name: str, named: Any, given: Sequence[torch.Tensor], made: Sequence[torch.Tensor], where: Where,
        took_ns: int,
    ) -> None:  # fmt: skip
        """A call that gave `made`; `where`: the program's lines around it."""
        has_backward = any(each.requires_grad for each in made)
        self._graph_ns += took_ns * has_backward
        self._spent[where][1] += took_ns
        wide = [each for each in made if each.dtype is _WIDE]
        is_cast = name in _ASKS or named.get("dtype") is _WIDE
        if (is_cast and wide) or any(self._is_asked(each) for each in given):
            self._asked |= {id(each): weakref.ref(each) for each in wide}
            return
        became = next((at for each in given if (at := self._of(each)) is not None), None)
        if became is None and wide and where and _is_mixed(given):
            became = where
        if became is None:
            return
        for each in wide:
            self._made[id(each)] = weakref.ref(each), became
        self._spent[where][0] += FOR_NOTHING * took_ns
        self._spent[where][2] += FOR_NOTHING * took_ns * has_backward
        self._became.setdefault(where, became)

    def stepped(self) -> None:
        """A step has ended."""
        self._made.clear()
        self._asked.clear()

    def forget(self) -> None:
        """What was spent so far counts no more."""
        self._spent.clear()
        self._graph_ns = 0

    def lines(self) -> Iterator[dict[str, Any]]:
        """Lines of a file of operations: of each place with such calls where their numbers became wide, the nanoseconds
        that are for nothing and those of all calls there, and the share that they have in all that has a backward."""
        for where, (wide_ns, all_ns, behind_ns) in self._spent.items():
            if wide_ns:
                yield {"wide": [where, self._became[where], wide_ns, all_ns, behind_ns / max(self._graph_ns, 1)]}

    def _of(self, tensor: torch.Tensor) -> Where | None:
        made, where = self._made.get(id(tensor), (None, None))
        return where if made is not None and made() is tensor else None

    def _is_asked(self, tensor: torch.Tensor) -> bool:
        asked = self._asked.get(id(tensor))
        return asked is not None and asked() is tensor


def _is_mixed(given: Sequence[torch.Tensor]) -> bool:
    """Whether narrow numbers meet wide ones; a number alone makes nothing wide, and wide parameters are wanted."""
    if any(each.dtype is _WIDE and each.requires_grad for each in given):
        return False
    kinds = {each.dtype for each in given if each.dim()}
    return _WIDE in kinds and any(kind in kinds for kind in _NARROW)
