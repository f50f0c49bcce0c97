"""What gloo and NCCL accept: calls that they refuse are refused here with the same words. Needs torch.

Sources: torch 2.13, torch/csrc/distributed/c10d/Utils.hpp (checkSplitSizes, assertTypeAndSizesMatch),
ProcessGroupGloo.cpp and ProcessGroupNCCL.cpp (allgather, reduce_scatter, gather, scatter, alltoall_base).
"""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from emberward.events import Body, Collective, CollectiveOp
from emberward.sources._calls import tensors_of
from emberward.sources._tape import Transport


class BackendError(RuntimeError):
    """What torch's own backend raises for such a call: the script's error, though we raise it."""


def require_accepted(method: str, body: Body, arguments: Sequence[Any], *, transport: Transport) -> None:
    """Raises BackendError where the backend refuses the call before anything is sent."""
    if not isinstance(body, Collective) or body.op in (
        CollectiveOp.ALL_REDUCE, CollectiveOp.BROADCAST, CollectiveOp.REDUCE,
    ):  # fmt: skip
        return
    size = len(body.group.ranks)
    taken, given = tensors_of(arguments[0]), tensors_of(arguments[1])
    if given and taken and given[0].dtype != taken[0].dtype:
        raise BackendError(f"invalid tensor type: output {taken[0].dtype}, input {given[0].dtype}")
    if method in ("all_to_all_single", "alltoall_base"):
        for tensor, splits in ((given[0], arguments[3]), (taken[0], arguments[2])):
            _require_splits(tensor, list(splits or ()), size)
    elif body.op is CollectiveOp.ALL_TO_ALL:
        if len(given) != size or len(taken) != size:
            raise BackendError(f"expected a list of {size} tensors, found {len(given)} and {len(taken)}")
    elif len(given) == 1 and len(taken) == 1:
        _require_flat(body, given[0], taken[0], size)
    elif body.op is not CollectiveOp.REDUCE_SCATTER and not (
        transport is Transport.NCCL and body.op is CollectiveOp.ALL_GATHER
    ):
        # The parts of a reduce-scatter may differ on both; each goes to a member that expects so much of everyone.
        _require_lists(given, taken, size)


def _require_splits(tensor: Tensor, splits: Sequence[int], size: int) -> None:
    rows = tensor.shape[0] if tensor.dim() else 0
    if not splits and rows % size:
        raise BackendError("Tensor's dim 0 does not divide equally across group size")
    if splits and len(splits) != size:
        raise BackendError("Number of tensor splits not equal to group size")
    if splits and sum(splits) != rows:
        raise BackendError(f"Split sizes doesn't match total dim 0 size: {list(splits)} of {rows}")


def _require_flat(body: Collective, given: Tensor, taken: Tensor, size: int) -> None:
    if not (given.is_contiguous() and taken.is_contiguous()):
        raise BackendError("Tensors must be contiguous")
    if body.op is CollectiveOp.ALL_GATHER and taken.numel() != given.numel() * size:
        raise BackendError("output tensor size must be equal to world_size times input tensor size")
    if body.op is CollectiveOp.REDUCE_SCATTER and given.numel() != taken.numel() * size:
        raise BackendError("input tensor must be the same size as output size times world size")


def _require_lists(given: Sequence[Tensor], taken: Sequence[Tensor], size: int) -> None:
    """One tensor on one side, a list with one for each member on the other: all of one size."""
    one, many = (given, taken) if len(given) == 1 else (taken, given)
    if len(one) != 1 or len(many) != size:
        return  # the coalesced forms, and members that give or take nothing
    for index, tensor in enumerate(many):
        if tensor.numel() != one[0].numel():
            raise BackendError(
                f"invalid tensor size at index {index} (expected {list(one[0].shape)}, got {list(tensor.shape)})"
            )
