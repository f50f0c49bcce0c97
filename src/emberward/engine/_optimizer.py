"""AdamW over this rank's local parts, and fp16's loss scale.

Plain tensors, not DTensors: an element-wise update needs no layout, and DTensor's dispatch would cost more than the
update (torch 2.13 on CPU). Moments lie where their parameter lies, hence sharded as it is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from emberward.engine._shard import ParameterPart
from emberward.recipe import OptimConfig, PrecisionConfig

MOMENTS = ("exp_avg", "exp_avg_sq")


class LocalAdamW:
    """AdamW (Loshchilov and Hutter 2019) whose state is named by parameter."""

    def __init__(self, parts: Sequence[ParameterPart], config: OptimConfig) -> None:
        self._parts = [part for part in parts if part.local.numel()]
        self._locals = [nn.Parameter(part.local) for part in self._parts]
        groups = [
            {"params": [p for p, part in self._pairs() if part.decays], "weight_decay": config.weight_decay},
            {"params": [p for p, part in self._pairs() if not part.decays], "weight_decay": 0.0},
        ]
        self._adamw = torch.optim.AdamW(
            [group for group in groups if group["params"]],
            lr=config.lr,
            betas=config.betas,
            eps=config.eps,
            fused=True,
        )
        self._num_updates = 0
        self._make_state()

    def _pairs(self) -> Iterator[tuple[nn.Parameter, ParameterPart]]:
        return zip(self._locals, self._parts, strict=True)

    def _make_state(self) -> None:
        """Moments from the start, so that a save before the first step and a load need no special case."""
        for param in self._locals:
            self._adamw.state[param] = {
                "step": torch.zeros((), dtype=torch.float32, device=param.device),
                **{name: torch.zeros_like(param, memory_format=torch.preserve_format).detach() for name in MOMENTS},
            }

    def step(self, lr: float) -> None:
        """One update with learning rate `lr` from the parts' gradients. Does not communicate."""
        for param, part in self._pairs():
            param.grad = part.local_grad
        for group in self._adamw.param_groups:
            group["lr"] = lr
        self._adamw.step()
        self._num_updates += 1
        for param in self._locals:
            param.grad = None

    def moments(self) -> Iterator[tuple[str, ParameterPart, Tensor]]:
        """(moment name, part, local tensor that shares storage) for every non-empty part."""
        for param, part in self._pairs():
            for name in MOMENTS:
                yield name, part, self._adamw.state[param][name]

    @property
    def num_updates(self) -> int:
        """Updates made so far."""
        return self._num_updates

    def set_num_updates(self, count: int) -> None:
        """Says how many updates the moments have seen, after a load."""
        self._num_updates = count
        for param in self._locals:
            self._adamw.state[param]["step"].fill_(float(count))


@dataclass(frozen=True, slots=True, kw_only=True)
class LossScale:
    """fp16's dynamic loss scale (Micikevicius et al. 2018): halved on overflow, doubled after `window` good steps."""

    scale: float
    window: int
    num_good: int = 0

    @classmethod
    def first(cls, config: PrecisionConfig) -> "LossScale":
        """The scale with which a run starts; 1 and constant unless it computes in fp16."""
        is_fp16 = config.compute.value == "fp16"
        return cls(scale=config.loss_scale if is_fp16 else 1.0, window=config.loss_scale_window if is_fp16 else 0)

    def after(self, *, is_finite: bool) -> "LossScale":
        """The scale for the next step."""
        if self.window == 0:
            return self
        if not is_finite:
            return replace(self, scale=max(self.scale / 2, 1.0), num_good=0)
        if self.num_good + 1 >= self.window:
            return replace(self, scale=self.scale * 2, num_good=0)
        return replace(self, num_good=self.num_good + 1)
