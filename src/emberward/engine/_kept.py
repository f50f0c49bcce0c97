"""What the layers of a family keep from forward to backward, held against what it declares."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from emberward.draws import Draws
from emberward.engine._shard import materialise
from emberward.engine._stage import StageModule
from emberward.families import ModelConfig, model_of
from emberward.plan import Tiling, block_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerKept:
    """Bytes that a layer leaves for its backward on one rank: as its family declares, and as autograd saved."""

    name: str
    declared_bytes: int
    kept_bytes: int


def kept_by_layers(
    config: ModelConfig, *, micro_batch: int = 2, dtype: torch.dtype = torch.float32
) -> tuple[LayerKept, ...]:
    """Each layer of the model, built and run once forward on the CPU with drawn values. No ranks; for small sizes."""
    model = model_of(config)
    stage = StageModule(config, range(1, len(model.blocks) - 1), None)
    materialise(stage, torch.device("cpu"))
    stage.to(dtype)
    for param in stage.parameters():
        torch.nn.init.normal_(param, std=0.1)
    draws = Draws(seed=0, step=0, samples=tuple(range(micro_batch)))
    tiling = Tiling(
        micro_batch=micro_batch, tp=1, sequence_parallel=False, compute_bytes=dtype.itemsize, recompute=False
    )
    found = []
    for before, block, module in zip(model.blocks, model.layers, stage.layers, strict=False):
        x = torch.randn(micro_batch, *before.output.shape, dtype=dtype)
        found.append(
            LayerKept(
                name=block.name, declared_bytes=block_bytes(block, tiling), kept_bytes=kept_bytes(module, x, draws)
            )
        )
    return tuple(found)


def kept_bytes(module: nn.Module, x: Tensor, draws: Draws | None) -> int:
    """Bytes of the distinct storages that autograd saves of `module(x, draws)` for each further micro-batch.

    Two forwards are run: what both saved are parameters and constants, which a rank holds once.
    """
    first, second = (_saved(module, each.requires_grad_(), draws) for each in (x.clone(), x.clone()))
    return sum(kept.untyped_storage().nbytes() for place, kept in second.items() if place not in first)


def _saved(module: nn.Module, x: Tensor, draws: Draws | None) -> dict[int, Tensor]:
    """One tensor of each storage that autograd saved, by the storage's place: held, so that no other gets the place."""
    found: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        found.setdefault(tensor.untyped_storage().data_ptr(), tensor.detach())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = module(x, draws)
    assert output.requires_grad, "a forward that needs gradients"
    return found
