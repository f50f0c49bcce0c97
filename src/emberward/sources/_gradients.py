"""Gradients that a backward computes for parameters and nothing reads. Needs torch.

[Note: unread gradients]
While steps are observed each parameter of a module that runs tells when a backward has added to its gradient, each
optimizer when it reads gradients, and when it or a module clears them. What was added is unread where it is cleared, or
another tensor stands in its place, before an optimizer of the parameter's steps; or where no optimizer has the
parameter, nobody cleared anything, and its numbers are those from before. A backward goes from the loss to what the
forward did first: from its last gradient that is read on, it computes nothing but such gradients. Whether it did so for
others than parameters of modules (of an input, of a graph of the program's own), the profiler's spans say: there is one
for each tensor whose gradient is added to.
"""

import gc
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook

MAX_MARKED = 4096
"""Elements of a parameter by which is seen whether anybody has changed it."""
MIN_BACKWARDS = 3
"""Backwards that add to a gradient which nobody clears, until it is one that nobody will read."""
_READ, _CLEARED = "read", "cleared"


@dataclass(slots=True)
class _Backward:
    site: str
    began_ns: int
    ended_ns: int = 0
    added: list[tuple[int, int, int]] = field(default_factory=list)
    """Of each gradient that was added to: its parameter, which of its events that is, and when."""


class _Watched:
    """A parameter and what became of its gradient, in order: a number of a backward, `_READ` or `_CLEARED`."""

    __slots__ = ("before", "events", "grad", "parameter")

    def __init__(self, parameter: torch.Tensor) -> None:
        self.parameter = parameter
        self.before = _state(parameter)
        self.events: list[int | str] = []
        self.grad: Callable[[], Any] = lambda: None

    @property
    def is_left(self) -> bool:
        """Whether it was added to, and nobody read or cleared it."""
        return bool(self.events) and not any(isinstance(each, str) for each in self.events)

    def is_read(self, index: int, owned: set[int]) -> bool:
        """Whether an optimizer may have read, or may still read, what the event of that index added."""
        after = next((each for each in self.events[index + 1 :] if isinstance(each, str)), None)
        if after is not None:
            return after == _READ
        is_often = len(self.events) >= MIN_BACKWARDS
        is_free = self.is_left and is_often and id(self.parameter) not in owned
        return not (is_free and _state(self.parameter) == self.before)


class GradientWatch:
    """What backwards of the observed steps compute gradients for. All but `lines` is for the training thread."""

    def __init__(self) -> None:
        self._watched: dict[int, _Watched] = {}
        self._backwards: list[_Backward] = []
        self._undo: list[Callable[[], None]] = []
        self._unread: list[dict[str, Any]] = []

    def start(self) -> None:
        """Begins to note what optimizers read and clear."""
        self._undo.append(register_optimizer_step_pre_hook(self._steps).remove)
        for owner, held in ((Optimizer, _of_optimizer), (torch.nn.Module, torch.nn.Module.parameters)):
            self._watch_clearing(owner, held)

    def watch(self, module: torch.nn.Module) -> None:
        """A module runs: its parameters are watched. Sharded ones are not, for FSDP moves their gradients itself."""
        for parameter in module.parameters():
            if parameter.requires_grad and type(parameter) is torch.nn.Parameter and id(parameter) not in self._watched:
                self._watched[id(parameter)] = _Watched(parameter)
                register: Any = parameter.register_post_accumulate_grad_hook
                self._undo.append(register(self._added).remove)

    def begins(self, site: str) -> _Backward:
        """A backward begins, at that line of the program. `ends` takes what it gives."""
        self._backwards.append(_Backward(site, time.time_ns()))
        return self._backwards[-1]

    def ends(self, backward: _Backward) -> None:
        """That backward has ended."""
        backward.ended_ns = time.time_ns()

    def stop(self) -> None:
        """Ends it and finds what is unread."""
        while self._undo:
            self._undo.pop()()
        owned: set[int] = set()
        if any(each.is_left for each in self._watched.values()):
            owned = {id(parameter) for optimizer in _optimizers() for parameter in _of_optimizer(optimizer)}
        self._unread = [found for each in self._backwards if (found := self._tail(each, owned)) is not None]
        self._watched.clear()
        self._backwards.clear()

    def lines(self) -> Iterator[dict[str, Any]]:
        """Lines of a file of operations, one for each backward that ends with gradients that nobody reads."""
        for each in self._unread:
            yield {"unread": each}

    def _added(self, parameter: torch.Tensor) -> None:
        watched = self._watched.get(id(parameter))
        open_ones = [each for each in self._backwards if not each.ended_ns]
        if watched is None or not open_ones:
            return
        if watched.events and watched.grad() is not parameter.grad:
            watched.events.append(_CLEARED)
        watched.grad = weakref.ref(parameter.grad) if parameter.grad is not None else lambda: None
        open_ones[-1].added.append((id(parameter), len(watched.events), time.time_ns()))
        watched.events.append(len(self._backwards))

    def _steps(self, optimizer: Optimizer, args: Any, named: Any) -> None:
        del args, named
        self._note(_of_optimizer(optimizer), _READ)

    def _note(self, parameters: Iterable[torch.Tensor], what: str) -> None:
        for parameter in parameters:
            watched = self._watched.get(id(parameter))
            if watched is not None and watched.events:
                watched.events.append(what)

    def _watch_clearing(self, owner: Any, held: Callable[[Any], Iterable[torch.Tensor]]) -> None:
        original = owner.zero_grad

        def zero_grad(it: Any, *args: Any, **named: Any) -> Any:
            self._note(held(it), _CLEARED)
            return original(it, *args, **named)

        owner.zero_grad = zero_grad
        self._undo.append(lambda: setattr(owner, "zero_grad", original))

    def _tail(self, backward: _Backward, owned: set[int]) -> dict[str, Any] | None:
        """When a backward computed gradients alone that nobody reads, and of how many parameters; None for none."""
        read = [at for each, index, at in backward.added if self._watched[each].is_read(index, owned)]
        last_ns = max(read, default=backward.began_ns)
        unread = [each for each, _, at in backward.added if at > last_ns]
        if not unread or not backward.ended_ns:
            return None
        numel = sum(self._watched[each].parameter.numel() for each in unread)
        return {
            "span": [last_ns, backward.ended_ns],
            "backward": [backward.began_ns, backward.ended_ns],
            "site": backward.site,
            "added": len(backward.added),
            "parameters": len(unread),
            "numel": numel,
        }


def _state(parameter: torch.Tensor) -> tuple[int, float]:
    """By what a parameter is seen to be changed: its version, and on the host its numbers."""
    if parameter.device.type != "cpu":
        return parameter._version, 0.0
    with torch.no_grad():
        return parameter._version, float(parameter.detach().reshape(-1)[:MAX_MARKED].double().sum())


def _of_optimizer(optimizer: Optimizer) -> list[torch.Tensor]:
    return [each for group in optimizer.param_groups for each in group["params"]]


def _optimizers() -> list[Optimizer]:
    """All optimizers of the process, also those that step seldom."""
    return [each for each in gc.get_objects() if Optimizer in type(each).__mro__ and hasattr(each, "param_groups")]
