"""The layers of a dry run: each is executed until it called alike twice, and then its calls are repeated.

[Note: folded layers]
What a layer computes, and what it calls over tp, follows from its code and from the shape and type of what it is given:
a dry run's tensors hold no values that it could look at. So a layer's forward is executed twice for each shape, with
and without gradients, and so is its backward (whole, and where it leaves its weights' products for later); with
recomputation the backward includes what torch's checkpoint computes again of the forward, up to where it stops. From
then on the calls are repeated and empty tensors of the same shapes are given. If two executions call differently, the
layer is executed each time until two in a row are alike. One execution is enough for a layer that called in it what
another layer of the rank called twice: every layer is executed, the second time stands for all that are alike. What
dp shards is gathered and summed around a layer each time, and not for a forward that is computed again
(`engine/_zero.py`).
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from emberward.draws import Draws
from emberward.families.layers import LateProduct, LateWeights
from emberward.sources import Note, Tape

Form = tuple[torch.Size, torch.dtype] | None
"""Shape and type of a tensor; None for none."""


@dataclass(frozen=True, slots=True)
class _Calls:
    """What an execution noted, waits counted from its first note, and what it gave."""

    notes: tuple[Note, ...]
    results: tuple[Form, ...]
    left: tuple[tuple[nn.Parameter, Form, Form], ...]
    """Products that were left for later: the weight, and what it is made of."""

    def is_like(self, other: "_Calls") -> bool:
        """The same of another layer: all but the weights themselves."""
        weights = [[(weight.shape, *forms) for weight, *forms in each.left] for each in (self, other)]
        return self.notes == other.notes and self.results == other.results and weights[0] == weights[1]


Alike = defaultdict[Hashable, list[_Calls]]
"""What layers of a rank called twice in a row, by the kind of execution."""


class FoldedLayer:
    """The forward of a layer of a dry run. See [Note: folded layers]."""

    def __init__(self, tape: Tape, alike: Alike, layer: nn.Module, *, recomputes: bool) -> None:
        self.tape = tape
        self._alike = alike
        self.layer = layer
        self._forward: Callable[[Tensor, Draws | None], Tensor] = layer.forward
        self._recomputes = recomputes
        queues = (module.late_weights for module in layer.modules() if isinstance(module, LateWeights))
        self._late = next((queue for queue in queues if queue is not None), None)
        self._latest: dict[Hashable, _Calls] = {}
        self._steady: set[Hashable] = set()

    def __call__(self, x: Tensor, draws: Draws | None) -> Tensor:
        """What the layer gives for `x`."""
        if not torch.is_grad_enabled():
            return self.forward(x, draws)
        result: Tensor = _Fold.apply(self, draws, x, *self.layer.parameters())  # type: ignore[no-untyped-call]
        return result

    def forward(self, x: Tensor, draws: Draws | None) -> Tensor:
        """The same, its graph left out."""
        key = ("forward", torch.is_grad_enabled(), _form(x), x.requires_grad, draws is None)

        def execute() -> tuple[int, Sequence[Tensor | None]]:
            begin = len(self.tape)
            with_grad = torch.is_grad_enabled() and x.requires_grad
            return begin, [self._forward(x.detach().requires_grad_(with_grad), draws).detach()]

        found = self._once(key, x, execute)[0]
        assert found is not None
        return found

    def backward(self, x: Tensor, draws: Draws | None, grad: Tensor, *, needs_grad: bool) -> Sequence[Tensor | None]:
        """The gradients of `x` and of each parameter, from that of the result."""
        late = None if self._late is None else self._late.open
        key = ("backward", _form(x), needs_grad, draws is None, late is not None)

        def execute() -> tuple[int, Sequence[Tensor | None]]:
            into = x.detach().requires_grad_(needs_grad)
            begin = len(self.tape)
            with torch.enable_grad():
                if self._recomputes:
                    given = checkpoint(self._forward, into, draws, use_reentrant=False)
                else:
                    given = self._forward(into, draws)
            self.tape.drop(begin)
            sources = [*([into] if needs_grad else []), *self.layer.parameters()]
            grads = torch.autograd.grad(given, sources, grad, allow_unused=True)
            return begin, grads if needs_grad else (None, *grads)

        return self._once(key, grad, execute)

    def _once(
        self, key: Hashable, like: Tensor, execute: Callable[[], tuple[int, Sequence[Tensor | None]]]
    ) -> Sequence[Tensor | None]:
        """What `execute` gives with the number of its first note; once two in a row were alike, as they were."""
        products = None if self._late is None else self._late.open
        before = self._latest.get(key)
        if before is not None and (key in self._steady or any(map(before.is_like, self._alike[key]))):
            self._steady.add(key)
            return self._repeat(before, like, products)
        num_left = 0 if products is None else len(products)
        begin, results = execute()
        left = [] if products is None else products[num_left:]
        calls = _Calls(
            notes=self.tape.since(begin),
            results=tuple(map(_form, results)),
            left=tuple((each.weight, _form(each.x), _form(each.grad)) for each in left),
        )
        if before == calls:
            self._steady.add(key)
            self._alike[key].append(calls)
        self._latest[key] = calls
        return results

    def _repeat(self, calls: _Calls, like: Tensor, products: list[LateProduct] | None) -> list[Tensor | None]:
        self.tape.repeat_all(calls.notes)
        for weight, x, grad in calls.left:
            assert products is not None and x is not None and grad is not None
            products.append(LateProduct(weight, _empty(like, x), _empty(like, grad)))
        return [None if form is None else _empty(like, form) for form in calls.results]


class _Fold(torch.autograd.Function):
    """The layer as one node of the graph."""

    @staticmethod
    def forward(ctx: Any, layer: FoldedLayer, draws: Draws | None, x: Tensor, *parameters: Tensor) -> Tensor:
        ctx.layer, ctx.draws, ctx.needs_grad = layer, draws, x.requires_grad
        ctx.save_for_backward(x)
        with torch.enable_grad():
            return layer.forward(x, draws)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        found = ctx.layer.backward(x, ctx.draws, grads[0], needs_grad=ctx.needs_grad)
        return None, None, *found


def _form(tensor: Tensor | None) -> Form:
    return None if tensor is None else (tensor.shape, tensor.dtype)


def _empty(like: Tensor, form: tuple[torch.Size, torch.dtype]) -> Tensor:
    return like.new_empty(form[0], dtype=form[1])
