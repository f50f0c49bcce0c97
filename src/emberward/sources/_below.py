"""Hands operations below autograd to a watch, each on plain tensors. Needs torch."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from torch import _C, Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

from emberward.events import Owner, main_package, owner_of
from emberward.sources._values import has_compiled

MAX_FRAMES = 200
_MADE_OF_PLAIN = ("torch.distributed.tensor.", "torch.distributed._functional_collectives.AsyncCollectiveTensor")
"""Tensors whose operations are made of operations on plain ones."""
Where = tuple[tuple[str, int], ...]
Call = Callable[[Any, Any, Any], Any]


class Below(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is in force `call` is given each operation on plain tensors, of distributed ones those that they are
    made of, and gives what it gives. `other`: told of an operation on others yet, which is not handed over."""

    def __init__(self, call: Call, other: Callable[[], None] = lambda: None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._call: Call | None = call
        self._other = other

    @staticmethod
    def can_be() -> bool:
        """Whether the program has neither compiled graphs, which would be compiled again, nor a mode of its own."""
        return not has_compiled() and all(isinstance(each, Below) for each in _get_current_dispatch_mode_stack())

    def begin(self) -> None:
        """Puts it in force in this thread."""
        self.__enter__()  # type: ignore[no-untyped-call]

    def end(self) -> None:
        """Takes it out of force. Under a mode that the program has put on meanwhile it stays, without effect."""
        self._call = None
        if _get_current_dispatch_mode_stack()[-1:] == [self]:
            self.__exit__(None, None, None)  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(f"{each.__module__}.{each.__name__}".startswith(_MADE_OF_PLAIN) for each in types):
            return NotImplemented
        named = kwargs or {}
        if self._call is None:
            return func(*args, **named)
        if any(each not in (Tensor, nn.Parameter, nn.Buffer) for each in types):
            self._other()
            return func(*args, **named)
        # What is asked of a tensor here, the program has not asked: other watches take no notice of it.
        with _C.DisableTorchFunction():
            return self._call(func, args, named)


def lines_around() -> Where:
    """The program's lines around the operation that is handed over, the innermost first."""
    found, program = [], main_package()
    frame: FrameType | None = sys._getframe(2)
    for _ in range(MAX_FRAMES):
        if frame is None:
            break
        if owner_of(frame.f_code.co_filename, program) is Owner.USER:
            found.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return tuple(found)
