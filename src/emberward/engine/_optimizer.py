"""AdamW over this rank's local parts, and fp16's loss scale.

Moments lie where their parameter lies, hence sharded as it is. The update is torch's own fused one by its function:
`torch.optim.AdamW` is the same with state kept by parameter, and brings torch._dynamo, which no rank needs: 0.6 of a
processor second in a rank's start (torch 2.13), as do FSDP2 and DTensor.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from emberward.engine._gradients import Divisor
from emberward.engine._shard import ParameterPart
from emberward.recipe import OptimConfig, PrecisionConfig

MOMENTS = ("exp_avg", "exp_avg_sq")


class LocalAdamW:
    """AdamW (Loshchilov and Hutter 2019) whose state is named by parameter."""

    def __init__(self, parts: Sequence[ParameterPart], config: OptimConfig) -> None:
        self._parts = [part for part in parts if part.local.numel()]
        self._locals = [nn.Parameter(part.local) for part in self._parts]
        self._config = config
        self._num_updates = 0
        # From the start, so that a save before the first step and a load need no special case.
        self._state = [
            {
                "step": torch.zeros((), dtype=torch.float32, device=param.device),
                **{name: torch.zeros_like(param, memory_format=torch.preserve_format).detach() for name in MOMENTS},
            }
            for param in self._locals
        ]

    @torch.no_grad()
    def step(self, lr: float, divisor: Divisor, *, is_divided: bool = False) -> None:
        """One update with learning rate `lr` from the parts' gradients over the divisor, unless that skips it.

        With `is_divided` the gradients were divided before. Does not communicate and reads nothing; who knows that the
        update was made says so to `count_update`.
        """
        first, second = self._config.betas
        for decays, decay in ((True, self._config.weight_decay), (False, 0.0)):
            mine = [
                (param, grad, state)
                for param, part, state in zip(self._locals, self._parts, self._state, strict=True)
                if part.spec.decays is decays and (grad := part.local_grad) is not None
            ]
            adamw(
                [param for param, _, _ in mine],
                [grad for _, grad, _ in mine],
                [state["exp_avg"] for _, _, state in mine],
                [state["exp_avg_sq"] for _, _, state in mine],
                [],
                [state["step"] for _, _, state in mine],
                fused=True,
                amsgrad=False,
                beta1=first,
                beta2=second,
                lr=lr,
                weight_decay=decay,
                eps=self._config.eps,
                maximize=False,
                grad_scale=None if is_divided else divisor.by,
                found_inf=divisor.is_skipped,
            )

    def count_update(self) -> None:
        """Counts an update that was made."""
        self._num_updates += 1

    def moments(self) -> Iterator[tuple[str, ParameterPart, Tensor]]:
        """(moment name, part, local tensor that shares storage) for every non-empty part."""
        for part, state in zip(self._parts, self._state, strict=True):
            for name in MOMENTS:
                yield name, part, state[name]

    @property
    def num_updates(self) -> int:
        """Updates made so far."""
        return self._num_updates

    def set_num_updates(self, count: int) -> None:
        """Says how many updates the moments have seen, after a load."""
        self._num_updates = count
        for state in self._state:
            state["step"].fill_(float(count))


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
