"""Gathers of what is gathered already, or of which each rank reads its own part, or one number. Needs torch.

[Note: gathered for its own part]
A tensor parallel plan can put an activation together on all ranks, as a layer's output that is replicated, of which the
next layer takes a part again: each rank reads of what it gathered what it had before. In the compared steps of programs
with distributed tensors the operations below autograd are followed from each gather on, forward and backward: joins and
views that keep the ranks' parts apart in one dimension, copies, and elementwise operations. What else reads them needs
the whole, or a part. Where of a gather nothing but the rank's own part is read, the others were moved for nothing, and
copied, and computed with. So they were where all that is read is a sum, a norm or another number of the whole, as of a
gradient that is gathered for its norm: each rank's part gives a number, and these are moved and put together.

A gather of memory that the same group has gathered in the same step, which is still held and was not written since,
brings what is there, as where each of three layers gathers the one input that they share.
"""

import math
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import distributed
from torch.multiprocessing import reductions

from emberward.sources._below import Below, Where, lines_around
from emberward.sources._picks import storage_of
from emberward.sources._values import tensors_in

MAX_OPERATIONS = 60_000
"""Of all compared steps. Of longer ones nothing is said."""
_TENSORS = "torch.distributed.tensor"
_GATHER = "_c10d_functional::all_gather_into_tensor"
_COPIES = frozenset({"aten::clone", "aten::_to_copy", "aten::contiguous"})
_SAME = _COPIES | {
    "_c10d_functional::wait_tensor",
    "_c10d_functional::_wrap_tensor_autograd",
    "aten::detach",
    "aten::alias",
    "aten::lift_fresh",
}
_FILLED = frozenset({f"aten::{each}" for each in ("empty_like", "zeros_like", "ones_like", "rand_like", "bernoulli_")})
"""Operations that read no number, but for how many there are."""
_VIEWS = frozenset({"aten::view", "aten::_unsafe_view", "aten::reshape"})
_SPLITS = frozenset({"aten::split", "aten::split_with_sizes", "aten::chunk"})
_NORMS = ("norm", "linalg_vector_norm", "_foreach_norm", "amax", "amin", "max", "min")
_NUMBERS = frozenset(f"aten::{each}" for each in ("sum", "mean", "any", "all", *_NORMS))
_LIKE_POINTWISE = frozenset({"aten::native_dropout", "aten::native_dropout_backward"})
_WEAK: Any = reductions.StorageWeakRef


@dataclass(slots=True, eq=False)
class _Gather:
    where: Where
    is_backward: bool
    num_bytes: int
    given_bytes: int
    took_ns: float = 0.0
    """Spent on what the other ranks' parts are copied and computed with."""
    is_again: bool = False
    is_needed: bool = False
    is_cut: bool = False
    """Whether the rank's own part was read, or a number to which the parts add up."""


@dataclass(frozen=True, slots=True)
class _Parts:
    """A value with the parts of all ranks along a dimension, or, with an `index`, the part of one of them."""

    gathers: frozenset[_Gather]
    size: int
    own: int
    dim: int = 0
    index: int | None = None


class PartsWatch:
    """Follows gathers between `start` and `stop`. All but `lines` is for the training thread."""

    def __init__(self, is_own: Callable[[], bool] = lambda: False) -> None:
        """`is_own`: whether what is called of torch now is another watch's."""
        self._is_own = is_own
        self._mode: Below | None = None
        self._known: dict[int, dict[Any, _Parts]] = defaultdict(dict)
        """By storage and by how a tensor lies in it."""
        self._gathers: list[_Gather] = []
        self._given: dict[Any, Any] = {}
        """What was gathered in this step: its memory, which may be gone, by how and when it was written."""
        self._num_operations = 0
        self._num_steps = 0

    def start(self) -> None:
        """Follows from now on, where the program has distributed tensors, and neither compiled graphs nor a mode."""
        if Below.can_be() and _TENSORS in sys.modules and distributed.is_initialized():
            self._mode = Below(self.call)
            self._mode.begin()

    def stepped(self) -> None:
        """A step has ended."""
        self._known.clear()
        self._given.clear()
        self._num_steps += self._mode is not None

    def stop(self) -> None:
        """Ends it."""
        mode, self._mode = self._mode, None
        if mode is not None:
            mode.end()
        self._known.clear()
        self._given.clear()

    def lines(self) -> Iterator[dict[str, Any]]:
        """Lines of a file of operations, one for each place and size of gathers of which a rank reads its own part
        alone, or of what is gathered already: the program's lines around it, bytes of the whole and of what the rank
        gives, whether it is in a backward, whether it is there already, gathers a step, and nanoseconds a step that the
        other parts are copied and computed with."""
        if not self._num_steps or self._num_operations > MAX_OPERATIONS:
            return
        needed = {each.num_bytes for each in self._gathers if each.is_needed or not each.is_cut}
        found: dict[tuple[Where, int, int, bool, bool], list[float]] = defaultdict(lambda: [0, 0.0])
        for each in self._gathers:
            is_again = each.is_again and each.num_bytes in needed
            if each.where and (is_again or each.num_bytes not in needed):
                cell = found[each.where, each.num_bytes, each.given_bytes, each.is_backward, is_again]
                cell[0] += 1 / self._num_steps
                cell[1] += 0.0 if is_again else each.took_ns / self._num_steps
        for (where, *of_gather), (number, took_ns) in found.items():
            yield {"parts": [where, *of_gather, number, took_ns]}

    def call(self, func: Any, args: Any, named: Any) -> Any:
        """What the operation gives. Raises what it raises, and nothing else."""
        if self._is_own():
            return func(*args, **named)
        began_ns = time.thread_time_ns()
        result = func(*args, **named)
        took_ns = time.thread_time_ns() - began_ns
        self._num_operations += 1
        if self._num_operations <= MAX_OPERATIONS:
            try:
                self._note(func, args, named, result, took_ns)
            except Exception:  # noqa: BLE001 (a program is not ended because it is profiled)
                self._num_operations = MAX_OPERATIONS + 1
        return result

    def _note(self, func: Any, args: Any, named: Any, result: Any, took_ns: int) -> None:
        given, made, name = [*tensors_in((args, named))], [*tensors_in(result)], func._schema.name
        held = {storage_of(each) for each in given}
        for each in made:
            if storage_of(each) not in held:
                self._known.pop(storage_of(each), None)
        known = [(each, parts) for each in given if (parts := self._of(each)) is not None]
        if name == _GATHER:
            self._need(parts for _, parts in known)
            resolve: Any = vars(distributed.distributed_c10d)["_resolve_process_group"]
            group = resolve(args[2])
            gather = _Gather(
                lines_around(), torch._C._current_graph_task_id() >= 0, made[0].nbytes, given[0].nbytes,
                is_again=self._is_given(given[0], args[2]),
            )  # fmt: skip
            self._gathers.append(gather)
            self._keep(made[0], _Parts(frozenset({gather}), args[1], group.rank()))
        elif known and not self._follow(func, name, args, known, made, took_ns):
            self._need(parts for _, parts in known)

    def _is_given(self, tensor: torch.Tensor, group: str) -> bool:
        """Whether the group has gathered that memory before in the step, as it is."""
        if tensor.is_inference():
            return False
        key = group, storage_of(tensor), _lies(tensor), tensor._version
        before, self._given[key] = self._given.get(key), _WEAK(tensor.untyped_storage())
        return before is not None and not before.expired()

    def _follow(
        self, func: Any, name: str, args: Any, known: Sequence[tuple[torch.Tensor, _Parts]], made: Any, took_ns: int
    ) -> bool:
        """Whether an operation keeps the parts apart; what it makes is followed then."""
        tensor, parts = known[0]
        if name in _FILLED:
            return True
        if name in _SAME and len(made) == 1 and made[0].shape == tensor.shape:
            self._keep(made[0], parts)
            self._spend(parts, took_ns * (name in _COPIES))
            return True
        if name == "aten::cat":
            return self._join(args, [parts for _, parts in known], made[0], took_ns)
        if parts.index is not None:
            return False
        if name in _NUMBERS and all(each.numel() == 1 for each in made):
            for gather in (gather for _, each in known for gather in each.gathers):
                gather.is_cut = True
            return all(each.index is None for _, each in known)
        if name in _VIEWS or name in ("aten::t", "aten::transpose", "aten::permute", "aten::unsqueeze"):
            dim = _dim_after(tensor, parts, made[0])
            if dim is not None:
                self._keep(made[0], replace(parts, dim=dim))
            return dim is not None
        if name in _SPLITS or name == "aten::slice":
            return self._cut(tensor, parts, made)
        if torch.Tag.pointwise in func.tags or name in _LIKE_POINTWISE:
            alike = {(each.dim, each.size, each.own, each.index) for _, each in known}
            whole = [each for each in made if each.shape == tensor.shape]
            if len(alike) > 1 or len(whole) != len(made) or any(each.shape != tensor.shape for each, _ in known):
                return False
            union = replace(parts, gathers=frozenset().union(*(each.gathers for _, each in known)))
            for each in whole:
                self._keep(each, union)
            self._spend(union, took_ns * (1 - 1 / parts.size))
            return True
        return False

    def _join(self, args: Any, parts: Sequence[_Parts], made: torch.Tensor, took_ns: int) -> bool:
        """Of all parts in order one value again, along another dimension."""
        joined = args[0]
        first = parts[0]
        is_all = [each.index for each in parts] == [*range(first.size)] and len(joined) == len(parts)
        if is_all and len({each.gathers for each in parts}) == 1:
            dim = args[1] if len(args) > 1 else 0
            self._keep(made, replace(first, dim=dim % made.dim(), index=None))
            self._spend(first, took_ns)
            return True
        return False

    def _cut(self, tensor: torch.Tensor, parts: _Parts, made: Sequence[torch.Tensor]) -> bool:
        """A split or a slice: of the parts, or across them."""
        width = tensor.shape[parts.dim] // parts.size
        for each in made:
            if each.shape[parts.dim] == tensor.shape[parts.dim]:
                self._keep(each, parts)
                continue
            begin = (each.storage_offset() - tensor.storage_offset()) / max(tensor.stride(parts.dim), 1)
            rest = [size for dim, size in enumerate(each.shape) if dim != parts.dim]
            if (
                each.shape[parts.dim] != width
                or begin % width
                or rest != [size for dim, size in enumerate(tensor.shape) if dim != parts.dim]
            ):
                return False
            self._keep(each, replace(parts, index=int(begin // width)))
        return True

    def _need(self, read: Iterator[_Parts]) -> None:
        for parts in read:
            for gather in parts.gathers:
                gather.is_cut |= parts.index == parts.own
                gather.is_needed |= parts.index != parts.own

    def _spend(self, parts: _Parts, took_ns: float) -> None:
        for gather in parts.gathers:
            gather.took_ns += took_ns / len(parts.gathers)

    def _of(self, tensor: torch.Tensor) -> _Parts | None:
        held = self._known.get(storage_of(tensor))
        return None if held is None else held.get(_lies(tensor))

    def _keep(self, tensor: torch.Tensor, parts: _Parts) -> None:
        self._known[storage_of(tensor)][_lies(tensor)] = parts


def _lies(tensor: torch.Tensor) -> Any:
    return tensor.storage_offset(), tuple(tensor.shape), tensor.stride()


def _dim_after(tensor: torch.Tensor, parts: _Parts, made: torch.Tensor) -> int | None:
    """Where a view has the dimension of the parts: as large, as far apart, and no other one like it."""
    size, apart = tensor.shape[parts.dim], tensor.stride(parts.dim)
    if made.is_contiguous() and tensor.is_contiguous():
        behind = math.prod(tensor.shape[parts.dim + 1 :])
        found = [i for i in range(made.dim()) if made.shape[i] == size and math.prod(made.shape[i + 1 :]) == behind]
    else:
        found = [i for i in range(made.dim()) if made.shape[i] == size and made.stride(i) == apart]
    return found[0] if len(found) == 1 else None
