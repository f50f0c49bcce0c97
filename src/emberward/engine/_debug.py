"""Debug operations inside a rank: hooks on modules, a look at parameters. See `recipe` [Note: debug operations]."""

import code
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from emberward.engine._shard import ParameterPart
from emberward.engine._stage import StageModule
from emberward.engine._world import Channel, World
from emberward.findings import ConfigError, EmberwardError
from emberward.layout import Axis
from emberward.recipe import DebugOperation, DebugTarget, DebugVerb, no_terminal

SHOWN_VALUES = 4

all_gather_flat = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


class DebugHooks:
    """Carries out a recipe's debug operations on one rank while `step` is open.

    `micro_batch` tells where the rank is. Raises ConfigError C117 for `stop` without a terminal, and for a pattern of
    modules that only hold others: no call passes through them.
    """

    def __init__(
        self,
        operations: Sequence[DebugOperation],
        stages: Sequence[StageModule],
        parts: Sequence[ParameterPart],
        world: World,
        *,
        micro_batch: Callable[[], int | None],
    ) -> None:
        self._world = world
        self._micro_batch = micro_batch
        self._step: int | None = None
        self._parts: list[tuple[DebugOperation, ParameterPart]] = []
        for operation in operations:
            if operation.ranks is None or world.rank in operation.ranks:
                self._place(operation, stages, parts)

    def _place(self, operation: DebugOperation, stages: Sequence[StageModule], parts: Sequence[ParameterPart]) -> None:
        if operation.verb is DebugVerb.STOP and not sys.stdin.isatty():
            raise no_terminal(operation.text)
        found = [part for part in parts if fnmatchcase(part.name, operation.pattern)]
        for part in found:
            self._require_copies(operation, part)
        self._parts += [(operation, part) for part in found]
        places = [(name, module) for stage in stages for name, module in stage.named_places() if name]
        named = [(name, module) for name, module in places if fnmatchcase(name, operation.pattern)]
        called = [(name, module) for name, module in named if _is_called(module)]
        if named and not called and not found:
            raise _never_called(operation, named[0][0], [name for name, module in places if _is_called(module)])
        for name, module in called:
            module.register_forward_hook(self._hook(operation, name))

    def _require_copies(self, operation: DebugOperation, part: ParameterPart) -> None:
        """Raises ConfigError C117 where `equal` is asked of a parameter that is cut over the axis."""
        tp = self._world.size(Axis.TP)
        is_cut = {
            None: False,
            Axis.TP: part.tp_copies != tp,
            Axis.DP_SHARD: self._world.size(Axis.DP_SHARD) > 1,
        }[operation.axis]
        if is_cut:
            raise ConfigError(
                f"no two ranks hold the same part of {part.name}",
                code="C117",
                where="debug",
                expected="a parameter of which ranks along the axis hold copies",
                found=operation.text,
                next="name a module instead, or leave it to health.drift_interval, which compares all copies",
            )

    def _hook(self, operation: DebugOperation, name: str) -> Callable[..., None]:
        def look(tensor: Tensor) -> None:
            self._look(operation, name, tensor, what=operation.of.value, layout="this rank's part")

        def hook(module: nn.Module, arguments: Any, output: Any) -> None:
            if self._step is None or not isinstance(output, Tensor):
                return
            if operation.of is DebugTarget.OUTPUT:
                look(output.detach())
            elif output.requires_grad:
                output.register_hook(lambda grad: look(grad.detach()))

        return hook

    @contextmanager
    def step(self, step: int) -> Iterator[None]:
        """Looks at what is asked for in the training step, counted from 0, while open."""
        self._step = step
        try:
            for operation, part in self._parts:
                self._look(operation, part.name, part.local, what="value", layout=_layout(part))
            yield
        finally:
            self._step = None

    def _look(self, operation: DebugOperation, name: str, tensor: Tensor, *, what: str, layout: str) -> None:
        step, micro_batch = self._step, self._micro_batch()
        if step is None or not operation.is_on(step=step, micro_batch=micro_batch):
            return
        if operation.verb is DebugVerb.EQUAL:
            self._require_equal(operation, name, tensor)
            return
        tensor = tensor.detach()
        if tensor.untyped_storage().device.type == "meta":
            return  # a dry run's tensors hold no values
        where = f"{name} {what}  step {step + 1}" + ("" if micro_batch is None else f" micro-batch {micro_batch}")
        if operation.verb in (DebugVerb.PRINT, DebugVerb.STOP):
            self._world.say(f"debug  {where}  rank {self._world.rank}  {described(tensor, layout)}\n")
        wrong = _broken(operation, tensor)
        if wrong is not None:
            raise self._failed(operation, f"{where}: {wrong}")
        if operation.verb is DebugVerb.STOP:
            code.interact(
                banner=f"stopped at {where}; `tensor` is it, Ctrl-D goes on, exit() ends the rank",
                local={"tensor": tensor, "name": name, "step": step, "torch": torch},
                exitmsg="",
            )

    def _require_equal(self, operation: DebugOperation, name: str, tensor: Tensor) -> None:
        """One all-gather over the axis; the bits must be the same on all its ranks."""
        for channel in _channels(operation, self._world):
            own = tensor.detach().contiguous().view(torch.uint8).reshape(-1)
            out = own.new_empty(channel.size * own.numel())
            all_gather_flat(out, own, group=channel.handle)
            rows = out.view(channel.size, -1)
            differs = (rows != rows[0]).any(1).to(torch.float32)
            odd = [
                rank
                for rank, is_odd in zip(channel.group.ranks, self._world.read("debug_equal", differs), strict=True)
                if is_odd
            ]
            if odd:
                raise self._failed(
                    operation, f"{name}: ranks {odd} have other bits than rank {channel.group.ranks[0]}", odd
                )

    def _failed(self, operation: DebugOperation, found: str, ranks: Sequence[int] | None = None) -> EmberwardError:
        return EmberwardError(
            f"a debug assertion does not hold: {found}",
            code="R118",
            where="debug",
            expected=operation.text,
            found=found,
            next='look at what comes before it: debug="print PATTERN" of the modules that feed it',
            ranks=(self._world.rank,) if ranks is None else tuple(ranks),
        )


def _is_called(module: nn.Module) -> bool:
    return type(module).forward is not nn.Module.forward


def _never_called(operation: DebugOperation, name: str, called: Sequence[str]) -> ConfigError:
    inside = [each for each in called if each.startswith(f"{name}.")]
    return ConfigError(
        f"{name} holds modules and is not called itself",
        code="C117",
        where="debug",
        expected=f"a module that is called, as {', '.join(inside[:3])}",
        found=operation.text,
        next=f'debug="{operation.text.replace(operation.pattern, inside[0], 1)}"' if inside else None,
    )


def _channels(operation: DebugOperation, world: World) -> list[Channel]:
    axes = (Axis.TP,) if operation.axis is Axis.TP else (Axis.DP_SHARD, Axis.DP_REPLICATE)
    return [world.channels[axis.value] for axis in axes if world.size(axis) > 1]


def _layout(part: ParameterPart) -> str:
    box = " x ".join(f"{start}:{stop}" for start, stop in part.box)
    whole = "x".join(map(str, part.shape))
    copies = f", alike on {part.tp_copies} tp ranks" if part.tp_copies > 1 else ""
    return f"[{box}] of {whole}{copies}"


def described(tensor: Tensor, layout: str) -> str:
    """Shape, type, layout, norm, range and first values of a tensor, in one line."""
    text = f"{'x'.join(map(str, tensor.shape)) or 'scalar'} {str(tensor.dtype).removeprefix('torch.')}, {layout}"
    if not tensor.numel():
        return f"{text}  empty"
    values = tensor.reshape(-1).double()
    bad = int((~values.isfinite()).sum())
    first = " ".join(f"{value:.4g}" for value in values[:SHOWN_VALUES].tolist())
    return (
        f"{text}  norm {values.norm():.6g}  min {values.min():.4g}  max {values.max():.4g}  mean {values.mean():.4g}"
        f"{f'  {bad} not finite' if bad else ''}  values {first}{' ...' if values.numel() > SHOWN_VALUES else ''}"
    )


def _broken(operation: DebugOperation, tensor: Tensor) -> str | None:
    """How the tensor breaks an assertion; None when it does not."""
    if operation.verb not in (DebugVerb.FINITE, DebugVerb.RANGE) or not tensor.numel():
        return None
    bad = int((~tensor.isfinite()).sum())
    if bad:
        return f"{bad} of {tensor.numel()} values are not finite"
    low, high = float(tensor.min()), float(tensor.max())
    if operation.verb is DebugVerb.RANGE and not operation.low <= low <= high <= operation.high:
        return f"values from {low:.6g} to {high:.6g}, asked for {operation.low:g} to {operation.high:g}"
    return None
