"""Whether a module or a tensor is one of FSDP2's or DTensor's, without importing either.

[Note: what a layout does not need]
FSDP2 and DTensor bring sympy, and FSDP2's hooks, `torch.optim.Optimizer` and values drawn on the meta device bring
torch._dynamo: together a processor second in every rank (torch 2.13), a third of its start. So they are imported where
a layout asks for them, and what may be theirs is looked up in `sys.modules`: while theirs is not imported, nothing is.
"""

import sys
from typing import TYPE_CHECKING, TypeGuard

from torch import Tensor, nn

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule
    from torch.distributed.tensor import DTensor


def is_fsdp(module: nn.Module) -> "TypeGuard[FSDPModule]":
    """Whether FSDP2 manages the module."""
    theirs = sys.modules.get("torch.distributed.fsdp")
    kind = getattr(theirs, "FSDPModule", None)  # None too while another thread imports it
    return kind is not None and isinstance(module, kind)


def is_dtensor(tensor: Tensor) -> "TypeGuard[DTensor]":
    """Whether the tensor is a DTensor."""
    theirs = sys.modules.get("torch.distributed.tensor")
    kind = getattr(theirs, "DTensor", None)
    return kind is not None and isinstance(tensor, kind)
