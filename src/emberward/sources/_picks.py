"""Products that an index would do, for nearly all that they multiply are zeros. Needs torch.

[Note: products that pick]
A matrix with no more numbers that are not zero than it has rows, or columns, picks rows of what it is multiplied with,
or adds them up by groups: one-hot rows, a table of who belongs to which group. ``index_select`` or ``index_add_`` does
that without going through the zeros. Which products have such a matrix is read from its numbers. What made it in the
same step was made for it. In the backward one product has it; one with what parameters made has two.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch

Where = tuple[tuple[str, int], ...]
_PRODUCTS = frozenset({"linear", "matmul", "__matmul__", "__rmatmul__", "mm", "bmm"})
_PART_OF_BACKWARD = 0.5
MAX_READ = 1 << 22
"""Numbers of a matrix that is read."""
_EINSUM = re.compile(r"\s*([a-zA-Z]+)\s*,\s*([a-zA-Z]+)\s*->\s*([a-zA-Z]*)\s*")


class _Maker(NamedTuple):
    where: Where
    took_ns: int
    numel: int
    of: tuple[int, ...]
    """Storages of what it was given."""


class _Factor(NamedTuple):
    """A factor of a product: `num` matrices of so many rows, and columns that are summed over."""

    matrix: torch.Tensor
    num: int
    rows: int
    columns: int

    def picks(self) -> bool:
        """Whether it has no more numbers than rows, or columns, and is not all zeros."""
        matrix, (least, most) = self.matrix, sorted((self.num * self.rows, self.num * self.columns))
        if matrix.requires_grad or matrix.layout is not torch.strided or matrix.device.type != "cpu":
            return False
        if not 0 < 2 * most <= matrix.numel() <= MAX_READ:
            return False
        return least / 2 <= int(torch.count_nonzero(matrix)) <= most


class PicksWatch:
    """Follows the calls of a step. All but `lines` is for the training thread."""

    def __init__(self) -> None:
        self._makers: dict[int, _Maker] = {}
        """By storage, the call that made it in this step."""
        self._spent: dict[Where, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
        """Nanoseconds of such products with what made their matrix, of all calls, and of all that has a backward."""

    def note(self, name: str, args: Any, given: Sequence[torch.Tensor], made: Any, where: Where, took_ns: int) -> None:
        """A call that gave `made`; `where`: the program's lines around it, empty where a library made it."""
        self._spent[where][1] += took_ns
        if not where or not isinstance(made, torch.Tensor):
            return
        with torch.no_grad():
            picking = _picking(name, args, given)
        if picking is not None:
            self._count(where, took_ns, made.requires_grad * _PART_OF_BACKWARD * took_ns)
            storages = [storage_of(picking)]
            while storages:
                maker = self._makers.pop(storages.pop(), None)
                if maker is not None and maker.numel == picking.numel():
                    self._count(maker.where, maker.took_ns, 0.0)
                    storages += maker.of
        elif not made.requires_grad:
            storages = [storage_of(each) for each in given]
            if (storage := storage_of(made)) not in storages:
                self._makers[storage] = _Maker(where, took_ns, made.numel(), tuple(storages))

    def stepped(self) -> None:
        """A step has ended."""
        self._makers.clear()

    def forget(self) -> None:
        """What was spent so far counts no more."""
        self._spent.clear()

    def lines(self, graph_ns: int) -> Iterator[dict[str, Any]]:
        """Lines of a file of operations: of each place with such products their nanoseconds and those of all calls of
        torch's, and the share that they have in all that has a backward (`graph_ns`)."""
        for where, (picks_ns, all_ns, behind_ns) in self._spent.items():
            if picks_ns:
                yield {"picks": [where, picks_ns, all_ns, behind_ns / max(graph_ns, 1)]}

    def _count(self, where: Where, took_ns: int, behind_ns: float) -> None:
        self._spent[where][0] += took_ns
        self._spent[where][2] += behind_ns


def storage_of(tensor: torch.Tensor) -> int:
    """A number of the memory that a tensor stands in; of one without any its own."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except RuntimeError:  # Sparse tensors and wrappers have none.
        return id(tensor)


def size_of(tensor: torch.Tensor) -> int:
    """Bytes of the memory that a tensor stands in; -1 of one without any."""
    try:
        return int(tensor.untyped_storage().nbytes())
    except RuntimeError:  # As in `storage_of`; NotImplementedError is one.
        return -1


def _picking(name: str, args: Any, given: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """The factor of a product that picks; None where there is none."""
    if name == "einsum":
        factors = _of_einsum(args[0], given)
    elif name in _PRODUCTS and len(given) >= 2 and given[0].dim() and given[1].dim() > 1:
        left, right = given[0].shape, given[1].shape
        num = math.prod(left[:-2]) if len(right) > 2 else 1
        factors = [_Factor(given[0], num, math.prod(left[:-1]) // max(num, 1), left[-1])]
        if name != "linear":
            factors.append(_Factor(given[1], math.prod(right[:-2]), right[-1], right[-2]))
    else:
        return None
    return next((each.matrix for each in factors if each.picks()), None)


def _of_einsum(equation: Any, given: Sequence[torch.Tensor]) -> list[_Factor]:
    letters = _EINSUM.fullmatch(equation) if isinstance(equation, str) else None
    if letters is None or len(given) != 2:
        return []
    *both, out = (set(each) for each in letters.groups())
    shared = both[0] & both[1]
    found = []
    for own, matrix in zip(letters.groups(), given, strict=False):
        kinds = {"num": 1, "rows": 1, "columns": 1}
        for letter, size in zip(own, matrix.shape, strict=True):
            kinds["rows" if letter not in shared else "num" if letter in out else "columns"] *= size
        found.append(_Factor(matrix, **kinds))
    return found
