"""Plain data parallelism: gradients lie in flat buffers, each of which is summed over dp as soon as it is whole.

[Note: plain data parallelism]
Where dp shards nothing and parameters are computed with as they are (ZeRO-0 in float32) FSDP2 has nothing to do but
copy: it gathers each parameter from one rank, and a gradient goes through three more buffers. At 20M parameters on two
ranks that cost a third more processor time than DDP's step and half as much memory again (benchmarks/engine_speed.py).
So here parameters are plain, and a gradient is a view of the buffer of its unit, as in DDP (Li et al. 2020, section
4.2.3): the first of a step is copied there, and autograd adds the others in place. Units are those that FSDP2 would
have: each layer, and what a stage holds beside them.
"""

from collections.abc import Sequence

import torch.distributed as dist
from torch import nn

from emberward.engine._stage import StageModule


class _Unit:
    """Parameters whose gradients are summed together. `num_missing`: gradients that the last backward still owes."""

    def __init__(self, params: Sequence[nn.Parameter]) -> None:
        self.params = params
        self.num_missing = 0
        self.work: dist.Work | None = None
        self.flat = params[0].detach().new_empty(sum(param.numel() for param in params))
        parts = self.flat.split([param.numel() for param in params])
        self._views = {param: part.view_as(param) for param, part in zip(params, parts, strict=True)}

    def take(self, param: nn.Parameter) -> None:
        """Sees to it that the gradient lies in the buffer; zeros where there is none."""
        view = self._views[param]
        if param.grad is None:
            view.zero_()
        elif param.grad is not view:
            view.copy_(param.grad)
        param.grad = view


class GradientSums:
    """The sums over dp of a stage's gradients. See [Note: plain data parallelism]."""

    def __init__(self, stage: StageModule, group: dist.ProcessGroup) -> None:
        """Of `stage`, which has its memory; `group` is that of the dp ranks. Does not communicate."""
        layers = [list(layer.parameters()) for layer in stage.layers]
        within = {param for params in layers for param in params}
        rest = [param for param in stage.parameters() if param not in within]
        # In the order in which a backward completes them, or nearly.
        self._units = [_Unit(params) for params in (*reversed(layers), rest) if params]
        self._group = group
        self._is_last = False
        for unit in self._units:
            for param in unit.params:
                param.register_post_accumulate_grad_hook(lambda param, unit=unit: self._count(unit, param))

    def before_backward(self, *, is_last: bool) -> None:
        """A backward begins; `is_last`: the step's last one of this stage."""
        self._is_last = is_last
        for unit in self._units:
            unit.num_missing = len(unit.params)

    def after_backward(self) -> None:
        """That backward has ended: after the last one, every gradient is summed over dp.

        All ranks of the group must call; blocks until the sums are there.
        """
        if not self._is_last:
            return
        self._is_last = False
        for unit in self._units:
            # What no backward completed, such as weights whose products came later.
            if unit.work is None:
                self._sum(unit)
        for unit in self._units:
            assert unit.work is not None, "every unit was sent"
            unit.work.wait()
            unit.work = None

    def drop(self) -> None:
        """Ends a step, whether it was whole or not."""
        self._is_last = False
        for unit in self._units:
            unit.work = None

    def _count(self, unit: _Unit, param: nn.Parameter) -> None:
        unit.take(param)
        unit.num_missing -= 1
        if self._is_last and unit.num_missing == 0:
            self._sum(unit)

    def _sum(self, unit: _Unit) -> None:
        for param in unit.params:
            unit.take(param)
        unit.work = dist.all_reduce(unit.flat, group=self._group, async_op=True)
