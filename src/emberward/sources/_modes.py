"""Puts a mode of ours among those of the program (`torch.overrides`), and takes it off again. Needs torch."""

from collections.abc import Iterable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, _pop_mode, _push_mode


def insert(mode: TorchFunctionMode) -> None:
    """Puts the mode in force below the program's: each of these takes off the last one when it ends.

    The one of ``torch.set_default_device`` takes off the first one.
    """
    modes = _taken_off()
    default = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    at = int(default is not None and modes[:1] == [default])
    _put_on([*modes[:at], mode, *modes[at:]])


def remove(mode: TorchFunctionMode) -> None:
    """Takes the mode off, wherever it stands."""
    _put_on([each for each in _taken_off() if each is not mode])


def _taken_off() -> list[Any]:
    """The modes of this thread, the outermost first, none of which is in force any more."""
    count = torch._C._len_torch_function_stack()
    pop: Any = _pop_mode
    return [pop() for _ in range(count)][::-1]


def _put_on(found: Iterable[Any]) -> None:
    push: Any = _push_mode
    for mode in found:
        push(mode)
