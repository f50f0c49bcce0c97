"""Looks at every operation of a step for the one that makes the first value that is not finite.

[Note: who makes it]
An operation makes it when its result is not finite and what it read was. What a collective or a receive brings was made
elsewhere and is no operation here, so that the rank that made it says so and the ranks that were sent it stay silent.
Minus infinity in what is read is a mask, and is finite in this sense. Creating, filling and copying make nothing:
memory that nobody has written yet may hold anything.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from emberward.engine._shard import ParameterPart
from emberward.engine._stage import StageModule
from emberward.events import Event, Stage

_MAKES_NOTHING = (
    "empty", "new_empty", "fill", "full", "new_full", "masked_fill", "where", "scalar_tensor", "copy", "_foreach_copy",
    "set_", "resize", "lift", "detach", "clone", "cat", "split", "_unsafe_view", "zero", "_foreach_zero", "arange",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class NotFinite:
    """Where a rank first made a value that is not finite: an operation of a module, or a parameter that was so before.

    `operation` is None for a parameter, whose name then is `module`. `micro_batch` and `stage` are None outside a
    schedule's computes.
    """

    module: str
    operation: str | None
    micro_batch: int | None = None
    stage: Stage | None = None


class Inspection:
    """What was found so far. As a sink it is told of each event when it is done, and so learns where it stands."""

    def __init__(self) -> None:
        self.found: NotFinite | None = None
        self._is_placed = True

    def put(self, event: Event) -> None:
        """Takes an event that is done: what was found since the one before it was found in it."""
        if self.found is not None and not self._is_placed:
            self._is_placed = True
            self.found = replace(self.found, micro_batch=event.phase.micro_batch, stage=event.phase.stage)

    def note(self, module: str, operation: str | None) -> None:
        """Notes the first find; later ones follow from it."""
        if self.found is None:
            self.found = NotFinite(module=module, operation=operation)
            self._is_placed = operation is None


@contextmanager
def inspected(stages: Sequence[StageModule], parts: Sequence[ParameterPart]) -> Iterator[Inspection]:
    """Watches every operation that this thread runs on the stages while open. Slow: reads each result."""
    inspection = Inspection()
    for part in parts:
        if not bool(part.local.isfinite().all()):
            inspection.note(part.name, None)
    place = _Place()
    with ExitStack() as stack:
        for stage in stages:
            for name, module in stage.named_places():
                stack.callback(module.register_forward_pre_hook(place.enter(name)).remove)
                stack.callback(module.register_forward_hook(place.leave(name), always_call=True).remove)
        stack.enter_context(_Operations(inspection, place))
        yield inspection


class _Place:
    """In which module this thread is, forward or backward."""

    def __init__(self) -> None:
        self._open: list[str] = []
        self._backward = "the step"

    @property
    def name(self) -> str:
        return (self._open[-1] if self._open else self._backward) or "the stage"

    def enter(self, name: str) -> Callable[..., None]:
        def hook(module: nn.Module, arguments: Any) -> None:
            self._open.append(name)

        return hook

    def leave(self, name: str) -> Callable[..., None]:
        def hook(module: nn.Module, arguments: Any, output: Any) -> None:
            if self._open and self._open[-1] == name:
                self._open.pop()
            if isinstance(output, Tensor) and output.requires_grad:
                output.register_hook(lambda grad: self._begin_backward(name))

        return hook

    def _begin_backward(self, name: str) -> None:
        """The gradient of a module's output is there: what follows is that module's backward."""
        self._backward = name


class _Operations(TorchDispatchMode):
    """Sees every operation below autograd, in forward and backward. See [Note: who makes it]."""

    def __init__(self, inspection: Inspection, place: _Place) -> None:
        super().__init__()
        self._inspection = inspection
        self._place = place

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        if self._inspection.found is not None or func.namespace != "aten" or name.startswith(_MAKES_NOTHING):
            return func(*args, **kwargs)
        read = [
            tensor for key, value in (*enumerate(args), *kwargs.items()) if key != "out" for tensor in _floats(value)
        ]
        has_mask = any(bool((tensor == -torch.inf).any()) for tensor in read)
        was_finite = not any(_is_bad(tensor, has_mask=True) for tensor in read)
        result = func(*args, **kwargs)
        if was_finite and any(_is_bad(tensor, has_mask=has_mask) for tensor in _floats(result)):
            self._inspection.note(self._place.name, name)
        return result


def _is_bad(tensor: Tensor, *, has_mask: bool) -> bool:
    """Whether it holds a NaN or an infinity; minus infinity counts only where no mask can have brought it."""
    if has_mask:
        return bool((tensor.isnan() | (tensor == torch.inf)).any())
    return not bool(tensor.isfinite().all())


def _floats(value: Any) -> Iterator[Tensor]:
    """The tensors of floating-point numbers in an argument or result, as this rank holds them."""
    if isinstance(value, Tensor):
        local = value.detach()
        if local.is_floating_point() and local.numel():
            yield local
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _floats(each)
