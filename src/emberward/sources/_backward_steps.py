"""The steps of a program without an optimizer of torch's: the ends of its backwards. Needs torch.

[Note: steps without an optimizer]
Whoever updates parameters by hand still computes gradients of them, and changes them after that. So a step ends with
each backward; of micro-batches each is a step. A backward inside another one (a checkpoint), and one whose gradients
are to be differentiated themselves (``create_graph``), end none.
"""

import functools
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer

_CREATE_GRAPH = {"backward": 3, "grad": 4}
"""Where ``create_graph`` stands among the arguments (torch 2.13, autograd/__init__.py)."""


class BackwardSteps:
    """Calls `stepped` after each backward that ends a step, in its thread, as long as there is no optimizer."""

    def __init__(self, stepped: Callable[[], None]) -> None:
        self._stepped = stepped
        self._inside = threading.local()
        self._is_off = False

    def start(self) -> None:
        """Wraps torch's two functions that compute gradients. Called once, before the program takes them."""
        autograd: Any = torch.autograd
        for name, index in _CREATE_GRAPH.items():
            setattr(autograd, name, self._wrapped(getattr(autograd, name), index))

    def _wrapped(self, original: Callable[..., Any], index: int) -> Callable[..., Any]:
        @functools.wraps(original)
        def backward(*args: Any, **named: Any) -> Any:
            if self._is_off or torch.compiler.is_compiling() or getattr(self._inside, "is_on", False):
                return original(*args, **named)
            self._inside.is_on = True
            try:
                result = original(*args, **named)
            finally:
                self._inside.is_on = False
            if not (args[index] if len(args) > index else named.get("create_graph")):
                self._ended()
            return result

        return backward

    def _ended(self) -> None:
        self._is_off = has_optimizer()
        if not self._is_off:
            self._stepped()


def has_optimizer() -> bool:
    """Whether the program has made an optimizer of torch's, whose class calls hooks then (torch 2.13, optimizer.py)."""
    rest: list[type] = [*Optimizer.__subclasses__()]
    while rest:
        one = rest.pop()
        if getattr(getattr(one, "step", None), "hooked", False):
            return True
        rest += one.__subclasses__()
    return False
