"""What a call of torch's ProcessGroup means in the vocabulary. Needs torch.

Method names and signatures are those of torch 2.11 to 2.13 (torch/csrc/distributed/c10d/init.cpp); 2.13 renames the
flat ones (``_allgather_base`` to ``all_gather_single`` and so on).
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor
from torch._C._distributed_c10d import ReduceOp as TorchReduceOp

from emberward.events import Barrier, Body, Collective, CollectiveOp, Group, Recv, ReduceOp, Send

_REDUCE_OPS = {
    "SUM": ReduceOp.SUM,
    "AVG": ReduceOp.AVG,
    "PRODUCT": ReduceOp.PRODUCT,
    "MIN": ReduceOp.MIN,
    "MAX": ReduceOp.MAX,
    "BAND": ReduceOp.BAND,
    "BOR": ReduceOp.BOR,
    "BXOR": ReduceOp.BXOR,
    "PREMUL_SUM": ReduceOp.PREMUL_SUM,
}

Arguments = Sequence[Any]
Splits = tuple[int, ...] | None
Make = Callable[[Group, Arguments], list[Body]]


def tensors_of(value: Any) -> list[Tensor]:
    """The tensors of an argument that may be one tensor, a list, or a list of lists."""
    if isinstance(value, Tensor):
        return [value]
    return [tensor for item in value for tensor in tensors_of(item)] if value is not None else []


def _reduce_op(options: Any) -> ReduceOp:
    found = getattr(options, "reduceOp", options)
    for name, word in _REDUCE_OPS.items():
        if found == getattr(TorchReduceOp, name):
            return word
    return ReduceOp.PREMUL_SUM if "PREMUL" in str(found) else ReduceOp.SUM


def _option(arguments: Arguments, position: int) -> Any:
    return arguments[position] if len(arguments) > position else None


def _root(group: Group, options: Any) -> int:
    group_rank = options if isinstance(options, int) else getattr(options, "rootRank", 0)
    return group.ranks[group_rank]


def _collective(
    op: CollectiveOp,
    group: Group,
    given: Sequence[Tensor],
    taken: Sequence[Tensor] | None = None,
    *,
    root: int | None = None,
    reduce_op: ReduceOp | None = None,
    in_splits: Splits = None,
    out_splits: Splits = None,
) -> Collective:
    """The call on `given` (what this rank puts in); `taken` is what it gets where that has another size."""
    first = next(iter(given or taken or ()), None)
    numel = sum(tensor.numel() for tensor in given)
    out = None if taken is None else sum(tensor.numel() for tensor in taken)
    return Collective(
        op=op,
        group=group,
        dtype=None if first is None else _dtype(first),
        numel=numel,
        root=root,
        reduce_op=reduce_op,
        out_numel=None if out == numel else out,
        shape=tuple(given[0].shape) if len(given) == 1 else None,
        in_splits=in_splits,
        out_splits=out_splits,
        parts=tuple(tensor.numel() for tensor in given) if len(given) > 1 and in_splits is None else None,
    )


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _allreduce(group: Group, arguments: Arguments) -> list[Body]:
    return [
        _collective(
            CollectiveOp.ALL_REDUCE, group, tensors_of(arguments[0]), reduce_op=_reduce_op(_option(arguments, 1))
        )
    ]


def _broadcast(group: Group, arguments: Arguments) -> list[Body]:
    root = _root(group, _option(arguments, 1))
    return [_collective(CollectiveOp.BROADCAST, group, tensors_of(arguments[0]), root=root)]


def _reduce(group: Group, arguments: Arguments) -> list[Body]:
    options = _option(arguments, 1)
    root = _root(group, options)
    return [_collective(CollectiveOp.REDUCE, group, tensors_of(arguments[0]), root=root, reduce_op=_reduce_op(options))]


def _gathers(group: Group, arguments: Arguments) -> list[Body]:
    given, taken = tensors_of(arguments[1]), tensors_of(arguments[0])
    return [_collective(CollectiveOp.ALL_GATHER, group, given, taken, out_splits=_uneven(group, given, taken))]


def _reduce_scatters(group: Group, arguments: Arguments) -> list[Body]:
    op = _reduce_op(_option(arguments, 2))
    given, taken = tensors_of(arguments[1]), tensors_of(arguments[0])
    # `parts` are those of what this rank gets: the input is a list with one tensor for each member.
    splits = _uneven(group, taken, given)
    body = _collective(CollectiveOp.REDUCE_SCATTER, group, given, taken, reduce_op=op, in_splits=splits)
    parts = tuple(tensor.numel() for tensor in taken) if len(taken) > 1 else None
    return [dataclasses.replace(body, parts=parts)]


def _gather(group: Group, arguments: Arguments) -> list[Body]:
    root = _root(group, _option(arguments, 2))
    given, taken = tensors_of(arguments[1]), tensors_of(arguments[0])
    return [_collective(CollectiveOp.GATHER, group, given, root=root, out_splits=_uneven(group, given, taken))]


def _scatter(group: Group, arguments: Arguments) -> list[Body]:
    root = _root(group, _option(arguments, 2))
    given, taken = tensors_of(arguments[1]), tensors_of(arguments[0])
    in_splits = tuple(tensor.numel() for tensor in given) if given else None
    return [_collective(CollectiveOp.SCATTER, group, given, taken, root=root, in_splits=in_splits)]


def _uneven(group: Group, own: Sequence[Tensor], parts: Sequence[Tensor]) -> Splits:
    """The sizes of `parts`, one tensor for each member beside this rank's `own` one, where they differ; else None."""
    sizes = tuple(tensor.numel() for tensor in parts)
    return sizes if len(own) == 1 and len(sizes) == len(group.ranks) and len(set(sizes)) > 1 else None


def _all_to_all(group: Group, arguments: Arguments) -> list[Body]:
    given, taken = tensors_of(arguments[1]), tensors_of(arguments[0])
    in_splits, out_splits = tuple(t.numel() for t in given), tuple(t.numel() for t in taken)
    return [_collective(CollectiveOp.ALL_TO_ALL, group, given, taken, in_splits=in_splits, out_splits=out_splits)]


def _all_to_all_single(group: Group, arguments: Arguments) -> list[Body]:
    taken, given = arguments[0], arguments[1]
    return [
        _collective(
            CollectiveOp.ALL_TO_ALL,
            group,
            [given],
            [taken],
            in_splits=_rows(group, given, _option(arguments, 3)),
            out_splits=_rows(group, taken, _option(arguments, 2)),
        )
    ]


def _rows(group: Group, tensor: Tensor, splits: Sequence[int] | None) -> Splits:
    """Elements for each member of a tensor that is divided along its first dim, evenly without `splits`."""
    size = len(group.ranks)
    if not splits:
        return (tensor.numel() // size,) * size
    rows = tensor.shape[0] if tensor.dim() else 0
    width = tensor.numel() // rows if rows else 0
    return tuple(int(rows_for) * width for rows_for in splits)


def _barrier(group: Group, arguments: Arguments) -> list[Body]:
    del arguments
    return [Barrier(group=group)]


def _send(group: Group, arguments: Arguments) -> list[Body]:
    return [_transfer(Send, group, tensor, arguments[1], _option(arguments, 2)) for tensor in tensors_of(arguments[0])]


def _recv(group: Group, arguments: Arguments) -> list[Body]:
    return [_transfer(Recv, group, tensor, arguments[1], _option(arguments, 2)) for tensor in tensors_of(arguments[0])]


def _transfer(kind: type[Send] | type[Recv], group: Group, tensor: Tensor, peer: int, tag: int | None) -> Send | Recv:
    return kind(
        peer=group.ranks[peer],
        group=group,
        tag=tag or 0,
        dtype=_dtype(tensor),
        numel=tensor.numel(),
        shape=tuple(tensor.shape),
    )


METHODS: Mapping[str, tuple[Make, int | None]] = {
    "allreduce": (_allreduce, 1),
    "allreduce_coalesced": (_allreduce, 1),
    "broadcast": (_broadcast, 1),
    "reduce": (_reduce, 1),
    "allgather": (_gathers, 2),
    "allgather_coalesced": (_gathers, 2),
    "all_gather_single": (_gathers, 2),
    "all_gather_single_coalesced": (_gathers, 2),
    "allgather_into_tensor_coalesced": (_gathers, 2),
    "_allgather_base": (_gathers, 2),
    "reduce_scatter": (_reduce_scatters, 2),
    "reduce_scatter_single": (_reduce_scatters, 2),
    "reduce_scatter_single_coalesced": (_reduce_scatters, 2),
    "reduce_scatter_tensor_coalesced": (_reduce_scatters, 2),
    "_reduce_scatter_base": (_reduce_scatters, 2),
    "gather": (_gather, 2),
    "scatter": (_scatter, 2),
    "alltoall": (_all_to_all, 2),
    "all_to_all_single": (_all_to_all_single, 4),
    "alltoall_base": (_all_to_all_single, 4),
    "barrier": (_barrier, 0),
    "monitored_barrier": (_barrier, None),
    "send": (_send, None),
    "recv": (_recv, None),
}
"""For each method: what makes its bodies, and the position of its options after `self`, None when it has none."""


def bodies_of(method: str, group: Group, arguments: Arguments, named: Mapping[str, Any]) -> tuple[list[Body], bool]:
    """The bodies of ``pg.method(*arguments, **named)`` and whether the call blocks the host until it is done.

    `named` may hold the options alone. A send or receive never blocks here: its wait says what it does.
    """
    make, position = METHODS[method]
    values = list(arguments)
    options = named.get("opts")
    if options is not None and position is not None:
        values += [None] * (position - len(values)) + [options]
    bodies = make(group, values)
    found = options if options is not None or position is None else _option(values, position)
    is_blocking = method == "monitored_barrier" or getattr(found, "asyncOp", True) is False
    return bodies, is_blocking
