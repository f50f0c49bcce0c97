"""Where the program asks for gradients of what is no parameter, and whether anybody reads them. Needs torch.

[Note: gradients of inputs]
A backward computes a gradient for each leaf that requires one, so also for a batch for which a line has switched that
on (``requires_grad_()``, ``requires_grad=True``): the first layer's backward has two products then, of which one alone
is for its weights. Such a gradient is read as the attribute `grad` of its tensor. Where nobody asks for that in the
compared steps, and no optimizer has the tensor, the gradient is for nothing.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

_GRAD: Any = vars(torch._C.TensorBase)["grad"].__get__
_REQUIRES: Any = vars(torch._C.TensorBase)["requires_grad"].__set__
Where = tuple[tuple[str, int], ...]


class InputsWatch:
    """Sees both in the compared steps, of which `has_seen` says whether there were any. For the training thread."""

    def __init__(self) -> None:
        self.has_seen = False
        self.is_read = False
        self._asked: set[Where] = set()

    @property
    def site(self) -> str | None:
        """File:line of the program at which these tensors came to require gradients; None where it is no single one."""
        where = next(iter(self._asked), ()) if len(self._asked) == 1 else ()
        return f"{where[0][0]}:{where[0][1]}" if where else None

    def note(self, func: Any, named: Any, given: Sequence[torch.Tensor], where: Callable[[], Where]) -> None:
        """A call of torch's; `where` finds the program's lines around it."""
        if any(isinstance(each, nn.Parameter) for each in given[:1]):
            return
        name = getattr(func, "__name__", "")
        self.is_read |= name == "__get__" and func == _GRAD
        is_set = name == "requires_grad_" or (name == "__set__" and func == _REQUIRES)
        if is_set or named.get("requires_grad") is True:
            self._asked.add(where())

    def stepped(self) -> None:
        """A step has ended."""
        self.has_seen = True

    def forget(self) -> None:
        """What was asked for so far counts no more; what was read does."""
        self._asked.clear()
