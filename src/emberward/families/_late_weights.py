"""Linear layers whose weights' gradients may come later than those of their inputs.

[Note: late weights]
A zero-bubble schedule runs a backward in two parts (`emberward.plan` [Note: a backward in parts]). Here the first is an
ordinary backward in which each linear layer of a stage gives the gradient of its input and leaves the product that is
its weight's gradient in a queue, with what it multiplies (x and dY). The second runs that queue. Norms, biases, the
embedding and the head give all of their gradients in the first: they cost little, and the head's product would hold the
gradient of the logits. Cutting autograd's graph instead, as torch's own schedules do
(torch/distributed/pipelining/_backward.py, 2.13), computes a layer that forgets its activations again for each of its
weights, and loses gradients in silence where parameters are sharded after each use; the queue does neither. Sums over
dp wait until the queue has run: see `engine/_zero.py`.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True, slots=True)
class LateProduct:
    """The gradient of `weight` that is to come: dY^T x over all leading dims."""

    weight: nn.Parameter
    x: Tensor
    grad: Tensor


class WeightQueue:
    """The products that backwards left for later, by stage and micro-batch. Not thread-safe: one backward at a time."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[int, int], list[LateProduct]] = {}
        self.open: list[LateProduct] | None = None
        """What the backward that is running has left so far; None outside of one that leaves its products."""

    @contextmanager
    def collecting(self, stage: int, mb: int) -> Iterator[None]:
        """Backwards in this context leave their weights' products for `run`."""
        self.open = self._waiting.setdefault((stage, mb), [])
        try:
            yield
        finally:
            self.open = None

    def leave(self, weight: nn.Parameter, x: Tensor, grad: Tensor) -> bool:
        """Takes the product for later; False where the backward is whole and wants it at once."""
        if self.open is None:
            return False
        self.open.append(LateProduct(weight, x, grad))
        return True

    @torch.no_grad()
    def run(self, stage: int, mb: int) -> None:
        """Adds what the backward of the micro-batch left to the weights' gradients, and frees what it held."""
        products = self._waiting.pop((stage, mb))
        while products:
            product = products.pop(0)
            _add_grad(product.weight, weight_grad(product.x, product.grad))

    def tensors(self) -> Iterator[Tensor]:
        """What waits is held by these."""
        for products in self._waiting.values():
            for product in products:
                yield product.x
                yield product.grad

    def clear(self) -> None:
        """Drops everything, after a step that failed."""
        self._waiting.clear()


def weight_grad(x: Tensor, grad: Tensor) -> Tensor:
    """The gradient [out, in] of a linear layer's weight from its input [..., in] and its result's gradient."""
    return grad.flatten(0, -2).T @ x.flatten(0, -2)


def _add_grad(weight: nn.Parameter, grad: Tensor) -> None:
    if weight.grad is None:
        weight.grad = grad
    else:
        weight.grad += grad


class _LateLinear(torch.autograd.Function):
    """x W^T + b, whose weight's gradient the queue may take."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, queue: WeightQueue, leaf: list[nn.Parameter]
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.has_bias, ctx.queue, ctx.leaf = bias is not None, queue, leaf[0]
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None, None, None]:
        x, weight = ctx.saved_tensors
        grad = grads[0]
        later = ctx.queue.leave(ctx.leaf, x, grad)
        bias_grad = grad.flatten(0, -2).sum(0) if ctx.has_bias else None
        return grad @ weight, None if later else weight_grad(x, grad), bias_grad, None, None


class LateWeights(nn.Module):
    """A module whose `linear` may leave its weight's product for later, once `defer_weights` has given it a queue."""

    weight: nn.Parameter
    late_weights: WeightQueue | None = None

    def linear(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """x W^T + b."""
        if self.late_weights is None:
            return F.linear(x, self.weight, bias)
        result: Tensor = _LateLinear.apply(x, self.weight, bias, self.late_weights, [self.weight])
        return result


def defer_weights(blocks: Iterable[nn.Module], queue: WeightQueue) -> None:
    """Lets the linear layers of `blocks` leave their weights' products in `queue` when it collects."""
    for block in blocks:
        for module in block.modules():
            if isinstance(module, LateWeights):
                module.late_weights = queue
