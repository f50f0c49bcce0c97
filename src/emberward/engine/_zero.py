"""ZeRO over the dp axes: parameters gathered and cast for a compute, gradients summed and cut, on flat buffers.

[Note: ZeRO on flat buffers]
A unit is a layer, or an end of the model: its first block, or its last, or both where they share a parameter. Its
master weights are float32, and where dp shards they are this rank's rows of each parameter (`layout.chunk`), one after
the other in one flat buffer, each with as many rows as the first rank has. One all-gather brings the buffers of all
ranks, from which the parameters are copied whole in the compute type; one reduce-scatter sums float32 gradients and
leaves this rank's rows. What dp does not shard is cast alone, and what is neither sharded nor cast (ZeRO-0 in float32)
is computed with as it is.

A gradient is copied or added into the unit's float32 buffer when autograd has it, and freed: 16-bit gradients are of
one parameter alone, and micro-batches add up in float32. ZeRO-2 and 3 reduce-scatter each micro-batch, ZeRO-1 sums them
whole and does it once; sums over replicas are made once (HSDP, and ZeRO-0, where they are the only ones). A layer or
last block is reduced when its backward has ended, its calls over tp included: when its last weight has its gradient is
autograd's choice, and no order that a dry run could tell. Gradients are summed, never averaged: token weights are
applied at the step's end. The first part of a split backward (I) sums nothing over dp: the second (W) first adds the
weights' (`_late_weights.py`).

gloo sums the whole on every rank to give each one its rows (torch 2.13: twice the bytes, and two copies). So where a
recipe says that ranks compute on the CPU, each rank is sent its rows of all of them by an all-to-all, and adds them.

ZeRO-1 and 2 gather once a step and keep the memory, and so does ZeRO-3 where there is room for it. Else ZeRO-3 gathers
for each pass, the next layer while one computes, frees a layer when the next one begins, and keeps for the rank's next
compute what that begins with, as much as there is room for (`plan/_gathers.py` [Note: kept for the next compute]). What
the last block holds is gathered while the layer before it computes, and then kept as long as what the first holds. The
order of layers is the stage's own and so needs no tracing. A forward that recomputation runs again gathers nothing: its
backward has.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from emberward.engine._shard import materialise
from emberward.engine._stage import StageModule
from emberward.engine._world import World
from emberward.families.layers import all_gather_flat, reduce_scatter_flat
from emberward.layout import Axis, chunk
from emberward.plan import Action, keeps_ends, kept_layers
from emberward.recipe import ComputeType, Device, ZeroStage

COMPUTE_DTYPE = {
    ComputeType.FP32: torch.float32,
    ComputeType.BF16: torch.bfloat16,
    ComputeType.FP16: torch.float16,
}

_ALIGNED = 64
"""Elements: a parameter begins at a multiple of a cache line in the gathered buffer."""
_IN_FLIGHT = 2
"""Reductions of a stage under way at a time: what is reduced is held whole."""


class _Over:
    """The dp axes of a stage's units: communicators, and this rank's place on the sharded one.

    `exchanges`: rows are summed by the rank that keeps them, after an all-to-all.
    """

    def __init__(self, world: World, *, exchanges: bool) -> None:
        self.exchanges = exchanges
        self.num_shards = world.size(Axis.DP_SHARD)
        self.shard = world.at(Axis.DP_SHARD)
        self.shards = world.channels[Axis.DP_SHARD.value].handle if self.num_shards > 1 else None
        is_replicated = world.size(Axis.DP_REPLICATE) > 1
        self.replicas = world.channels[Axis.DP_REPLICATE.value].handle if is_replicated else None


class _Unit:
    """Parameters that are gathered and reduced together. See [Note: ZeRO on flat buffers].

    `num_missing`: gradients that the backward that runs still owes; `is_due`: no call of its layer is left in it.
    """

    def __init__(self, params: Sequence[nn.Parameter], over: _Over, dtype: torch.dtype, device: torch.device) -> None:
        self.params = list(params)
        self.masters = self.params
        self.num_missing = 0
        self.is_due = False
        self._over = over
        self._dtype = dtype
        self._device = device
        self._is_wrapped = over.num_shards > 1 or dtype is not torch.float32
        # Rows of each parameter in a rank's buffer, and their elements.
        self._rows = [-(-len(param) // over.num_shards) for param in params]
        self._sizes = [rows * param[:1].numel() for rows, param in zip(self._rows, params, strict=True)]
        self._is_padded = sum(self._sizes) * over.num_shards != sum(param.numel() for param in params)
        self.is_gathered = not self._is_wrapped
        self._received: tuple[dist.Work, Tensor, Tensor] | None = None
        if self._is_wrapped:
            self._make_masters()
            self._make_whole()
        # Gradients: `_grads` those that are not reduced yet, `_sums` this rank's rows of the sums.
        self._grads: Tensor | None = None
        self._regions: tuple[Tensor, ...] = ()
        self._taken: set[int] = set()
        self._sums: Tensor | None = None
        self._reducing: tuple[dist.Work, Tensor] | None = None
        self._all_reducing: dist.Work | None = None

    def _make_masters(self) -> None:
        self._held = torch.zeros(sum(self._sizes), dtype=torch.float32, device=self._device)
        self.masters = []
        for param, part in zip(self.params, self._held.split(self._sizes), strict=True):
            start, stop = chunk(len(param), self._over.num_shards, self._over.shard)
            mine = part[: (stop - start) * param[:1].numel()].view(stop - start, *param.shape[1:])
            self.masters.append(nn.Parameter(mine))

    def _make_whole(self) -> None:
        """The parameters that are computed with: views of one buffer, whose memory is there while they are gathered."""
        lengths = [self._over.num_shards * size for size in self._sizes]
        starts = [0]
        for length in lengths:
            starts.append(starts[-1] + -(-length // _ALIGNED) * _ALIGNED)
        self._buffer = torch.empty(starts[-1], dtype=self._dtype, device=self._device)
        self._num_bytes = self._buffer.untyped_storage().nbytes()
        self._places = [self._buffer[start : start + length] for start, length in zip(starts, lengths, strict=False)]
        # `.data` has a version of its own: what is written here is no change of what autograd saved.
        self.params = [
            nn.Parameter(place[: param.numel()].view(param.shape).data)
            for place, param in zip(self._places, self.params, strict=True)
        ]
        self.release()

    # -- parameters --------------------------------------------------------------------------------------------------

    @property
    def gathered_bytes(self) -> int:
        """Of its parameters while they are gathered."""
        return self._over.num_shards * sum(self._sizes) * self._dtype.itemsize

    @torch.no_grad()
    def gather(self) -> None:
        """Begins to fetch the parameters unless they are there or under way. All ranks of dp_shard must call."""
        if self.is_gathered or self._received is not None:
            return
        storage = self._buffer.untyped_storage()
        if storage.nbytes() != self._num_bytes:
            storage.resize_(self._num_bytes)
        if self._over.shards is None:
            torch._foreach_copy_(self._places, list(self._held.split(self._sizes)))
            self.is_gathered = True
            return
        mine = self._held.to(self._dtype)
        out = mine.new_empty(self._over.num_shards * len(mine))
        work = all_gather_flat(out, mine, group=self._over.shards, async_op=True)
        assert work is not None, "this rank is in its dp group"
        self._received = (work, mine, out)

    @torch.no_grad()
    def wait(self) -> None:
        """Fetches the parameters; blocks until they are there."""
        self.gather()
        if self._received is None:
            return
        work, _, out = self._received
        work.wait()
        parts = out.view(self._over.num_shards, -1).split(self._sizes, dim=1)
        places = [place.view(part.shape) for place, part in zip(self._places, parts, strict=True)]
        torch._foreach_copy_(places, list(parts))
        self._received = None
        self.is_gathered = True

    def release(self) -> None:
        """Frees the gathered parameters."""
        self.expire()
        if self._is_wrapped:
            self._buffer.untyped_storage().resize_(0)

    def expire(self) -> None:
        """Takes what was gathered for old, and keeps its memory."""
        self._received = None
        self.is_gathered = not self._is_wrapped

    # -- gradients ---------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def take(self, at: int) -> None:
        """Moves the gradient of parameter `at` into the float32 buffer, where there is one."""
        grad = self.params[at].grad
        if grad is None:
            return
        for place, part in self._pieces(at, grad):
            place.add_(part) if at in self._taken else place.copy_(part)
        self._taken.add(at)
        self.params[at].grad = None

    def _region(self, at: int) -> Tensor:
        """The place of a parameter's gradient: [ranks of dp_shard, elements of each one's rows]."""
        if self._grads is None:
            numel = self._over.num_shards * sum(self._sizes)
            new = torch.zeros if self._is_padded else torch.empty
            self._grads = new(numel, dtype=torch.float32, device=self._device)
            self._regions = self._grads.view(self._over.num_shards, -1).split(self._sizes, dim=1)
        return self._regions[at]

    def _pieces(self, at: int, grad: Tensor) -> list[tuple[Tensor, Tensor]]:
        """(place, part of the gradient): the rows of all ranks that have as many as the first, and those of the rank
        that has fewer."""
        region, rows = self._region(at), self._rows[at]
        num_full, rest = divmod(len(grad), rows) if rows else (0, 0)
        found = []
        if num_full:
            found.append((region[:num_full], grad[: num_full * rows].reshape(num_full, -1)))
        if rest:
            last = grad[num_full * rows :].reshape(-1)
            found.append((region[num_full, : len(last)], last))
        return found

    @torch.no_grad()
    def reduce(self) -> None:
        """Begins to sum what was taken over dp_shard. All its ranks must call; `finish` ends it.

        What no backward gave counts with zeros.
        """
        for at in range(len(self.params)):
            self.take(at)
            if at not in self._taken:
                self._region(at).zero_()
        self._taken.clear()
        assert self._grads is not None, "a unit has parameters"
        if self._over.shards is None:
            self._sums = self._grads
            return
        if self._over.exchanges:
            out = torch.empty_like(self._grads)
            work = dist.all_to_all_single(out, self._grads, group=self._over.shards, async_op=True)
        else:
            out = self._grads.new_empty(sum(self._sizes))
            work = reduce_scatter_flat(out, self._grads, group=self._over.shards, async_op=True)
        assert work is not None, "this rank is in its dp group"
        self._reducing = (work, out)

    @torch.no_grad()
    def finish(self, *, is_last: bool) -> None:
        """Waits for that sum and adds it to those of earlier micro-batches; after the last one begins the sum over
        replicas. All ranks of dp must call."""
        if self._reducing is not None:
            work, out = self._reducing
            work.wait()
            rows = list(out.view(-1, sum(self._sizes)))
            if self._sums is None:
                # What was exchanged is freed: a sum is memory of its own.
                self._sums = rows.pop(0) if len(rows) == 1 else rows.pop(0) + rows.pop(0)
            for each in rows:
                self._sums.add_(each)
            self._reducing = self._grads = None
            self._regions = ()
        assert self._sums is not None, "reduced before"
        if is_last and self._over.replicas is not None:
            self._all_reducing = dist.all_reduce(self._sums, group=self._over.replicas, async_op=True)

    def hand_over(self) -> None:
        """Gives the master weights their gradients; blocks until they are summed over replicas."""
        if self._all_reducing is not None:
            self._all_reducing.wait()
            self._all_reducing = None
        assert self._sums is not None, "reduced before"
        for master, part in zip(self.masters, self._sums.split(self._sizes), strict=True):
            master.grad = part[: master.numel()].view(master.shape)

    def drop(self) -> None:
        """Ends a step, whether it was whole or not."""
        self._received = self._reducing = self._all_reducing = None
        self._taken.clear()
        for param in (*self.params, *self.masters):
            param.grad = None
        if self._over.shards is not None:
            self._grads = self._sums = None
            self._regions = ()


class StageShards:
    """What a stage holds over dp. See [Note: ZeRO on flat buffers].

    All ranks of dp must call the same methods in the same order; each blocks until what its stage needs is there.
    """

    def __init__(
        self, stage: StageModule, world: World, *, zero: ZeroStage, compute: ComputeType, device: Device
    ) -> None:
        """Gives `stage`, which lies on the meta device, its memory; values are undefined. Does not communicate.

        Under ZeRO-3 `hold` has to say next how much of it may be gathered.
        """
        over, dtype = _Over(world, exchanges=device is Device.CPU), COMPUTE_DTYPE[compute]
        if over.num_shards == 1 and dtype is torch.float32:
            materialise(stage, world.device)
        first, layers, last = stage.ends_and_layers()
        ends = nn.ModuleList([*first, *last])
        if len(list(ends.parameters())) < sum(len(list(block.parameters())) for block in ends):
            first, last = [ends], []
        self._dtype = dtype
        self._is_sharded = over.num_shards > 1
        self._frees = zero is ZeroStage.PARAMETERS and over.num_shards > 1
        self._room_bytes = 0
        self._first, self._layers, self._last = (
            [_Unit(list(block.parameters()), over, dtype, world.device) for block in blocks]
            for blocks in (first, layers, last)
        )
        self._ends = [*self._first, *self._last]
        # In the order of a forward behind the first block, and in that in which a backward completes them, or nearly.
        self._passed = [*self._layers, *self._last]
        self._units = [*reversed(self._passed), *self._first]
        self._masters = dict(pair for unit in self._units for pair in zip(unit.params, unit.masters, strict=True))
        self._in_backward = self._reduces = self._is_last = False
        self._kept: list[_Unit] = []
        self._reducing: list[_Unit] = []
        self._missing: list[_Unit] = []
        built = [param for block in (*first, *layers, *last) for param in block.parameters()]
        computed_with = [param for unit in (*self._first, *self._passed) for param in unit.params]
        _replace(stage, dict(zip(built, computed_with, strict=True)))
        for unit in self._units:
            for at, param in enumerate(unit.params):
                param.register_post_accumulate_grad_hook(self._counter(unit, at))
        for at, block in enumerate((*layers, *last)):
            block.register_forward_pre_hook(self._before_block(at))
        if not all(unit.is_gathered for unit in self._units):
            stage.register_forward_pre_hook(self._cast)
            for at, layer in enumerate(layers):
                layer.register_forward_hook(self._after_layer(at))

    def master_of(self, param: nn.Parameter) -> nn.Parameter:
        """This rank's rows of a parameter of the stage, float32, which get the gradient's."""
        return self._masters[param]

    @property
    def gathered_bytes(self) -> int:
        """Of all its parameters while they are gathered."""
        return sum(unit.gathered_bytes for unit in self._units)

    def hold(self, room_bytes: int | None) -> None:
        """Lets so much be gathered at a time under ZeRO-3; None: all, from one compute to the next."""
        if room_bytes is None:
            self._frees = False
        else:
            self._room_bytes = room_bytes - sum(unit.gathered_bytes for unit in self._ends)

    # -- a compute ---------------------------------------------------------------------------------------------------

    def before_forward(self, action: Action, then: Action | None) -> None:
        """A forward begins; `then` is the next compute of this rank that reads parameters."""
        self._begin([*self._first, *self._layers[:1]], action, then)
        for unit in self._first:
            unit.wait()

    def before_backward(self, action: Action, then: Action | None, *, reduces: bool, is_last: bool) -> None:
        """A backward begins, or its first part; `reduces`: gradients are summed over dp_shard in it, `is_last`: for
        the last time in the step."""
        self._in_backward = True
        self._begin([*self._last, *self._layers[-1:], *self._first], action, then)
        for unit in self._ends:
            unit.wait()
        self.before_weights(reduces=reduces, is_last=is_last)

    def before_weights(self, *, reduces: bool, is_last: bool) -> None:
        """The second part of a backward begins."""
        self._reduces, self._is_last = is_last or (reduces and self._is_sharded), is_last
        self._missing = list(self._units)
        for unit in self._units:
            unit.num_missing, unit.is_due = len(unit.params), unit in self._first

    def after_compute(self) -> None:
        """What began has ended: gradients that were to be summed are, and what is not kept is freed."""
        self._in_backward = False
        if self._frees:
            self._release(self._layers)
            self._release(self._ends)
        if not self._reduces:
            return
        # What no backward completed, such as weights whose products came later.
        for unit in list(self._missing):
            self._reduce(unit)
        self._finish(0)
        if self._is_last:
            for unit in self._units:
                unit.hand_over()
        self._reduces = self._is_last = False

    def end(self) -> None:
        """Ends a program, whether it was whole or not: what was gathered is old."""
        self._in_backward = self._reduces = self._is_last = False
        self._reducing.clear()
        for unit in self._units:
            unit.drop()
            if self._frees:
                unit.release()
            else:
                unit.expire()

    def _begin(self, first: Sequence[_Unit], action: Action, then: Action | None) -> None:
        sizes = [unit.gathered_bytes for unit in self._layers]
        self._kept = [self._layers[at] for at in kept_layers(action, then, sizes, self._room_bytes)]
        self._kept += self._ends if keeps_ends(action, then) else []
        for unit in first:
            unit.gather()

    def _use(self, at: int, after: int) -> None:
        """Layer `at` is next, or the last block, and then `after`, if there is such a one."""
        self._passed[at].gather()
        if 0 <= after < len(self._passed):
            self._passed[after].gather()
        self._passed[at].wait()

    def _release(self, units: Sequence[_Unit]) -> None:
        for unit in units:
            if unit not in self._kept:
                unit.release()

    # -- what torch calls --------------------------------------------------------------------------------------------

    def _cast(self, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        x, *others = args
        return (x.to(self._dtype) if x.is_floating_point() else x, *others)

    def _before_block(self, at: int) -> Callable[[nn.Module, tuple[Any, ...]], tuple[Any, ...]]:
        unit = self._passed[at]

        def backward(grad: Tensor) -> None:
            unit.is_due = True
            self._reduce_when_due(unit)

        def hook(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
            if not self._in_backward:
                self._use(at, at + 1)
                if torch.is_grad_enabled() and args[0].requires_grad:
                    args[0].register_hook(backward)
            return self._cast(module, args)

        return hook

    def _after_layer(self, at: int) -> Callable[[nn.Module, tuple[Any, ...], Tensor], None]:
        def backward(grad: Tensor) -> None:
            # The layer above has given its input's gradient.
            self._release(self._layers[at + 1 : at + 2])
            self._use(at, at - 1)

        def hook(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
            if not self._frees or self._in_backward:
                return
            self._release(self._layers[at : at + 1])
            if output.requires_grad:
                output.register_hook(backward)

        return hook

    def _counter(self, unit: _Unit, at: int) -> Callable[[nn.Parameter], None]:
        def count(param: nn.Parameter) -> None:
            unit.take(at)
            unit.num_missing -= 1
            self._reduce_when_due(unit)

        return count

    def _reduce_when_due(self, unit: _Unit) -> None:
        if self._reduces and unit.is_due and unit.num_missing == 0:
            self._reduce(unit)

    def _reduce(self, unit: _Unit) -> None:
        self._missing.remove(unit)
        unit.reduce()
        self._reducing.append(unit)
        self._finish(_IN_FLIGHT - 1)

    def _finish(self, num_left: int) -> None:
        """Ends the oldest reductions but so many."""
        while len(self._reducing) > num_left:
            self._reducing.pop(0).finish(is_last=self._is_last)


def _replace(stage: StageModule, by: Mapping[nn.Parameter, nn.Parameter]) -> None:
    """Gives each module of the stage the parameters that stand for its own; one that lies in two places stays one."""
    for module in stage.modules():
        for name, param in module.named_parameters(recurse=False):
            module.register_parameter(name, by[param])
