"""Swin on ranks, and the plain one-process training it is held against: real digits, and drop path and dropout on.

The plain run takes each step's samples as one batch and has neither mesh, pipeline, executor nor accumulation; it
shares the modules, the first weights and the draws by sample.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from emberward.data import (
    Augment,
    Decoding,
    ImageTrain,
    open_image_train,
    prepare_image_sets,
    read_manifest,
    step_indices,
)
from emberward.draws import Draws
from emberward.engine import Engine, StageModule, build_world
from emberward.engine._shard import ParameterPart, initialise, materialise
from emberward.families import ModelConfig, model_of
from emberward.plan import BackwardLane
from emberward.rank._samples import micro_batches
from emberward.recipe import (
    BatchConfig,
    Device,
    LayoutConfig,
    OptimConfig,
    Recipe,
    ZeroStage,
    ends_of,
    has_backward_lane,
    mesh_of,
)

LR = 2e-3
SMALL = ModelConfig(
    family="swin", hidden=12, depths=(2, 2, 2), stage_heads=(3, 6, 12), window=2, image_size=8, patch_size=1,
    num_channels=1, num_classes=10, init_std=0.05, drop_path=0.2, dropout=0.1, attention_dropout=0.1,
)  # fmt: skip
"""8 / 4 / 2 rows of tokens: windows moved in two stages, 3 heads over tp 2 in the first."""
FOUR_STAGES = ModelConfig(
    family="swin", hidden=12, depths=(2, 1, 1, 2), stage_heads=(3, 6, 12, 24), window=2, image_size=16, patch_size=1,
    num_channels=1, num_classes=10, init_std=0.05, drop_path=0.2,
)  # fmt: skip
"""Four stages as Swin-T, on digits of twice the side."""
MODELS = {"small": SMALL, "four stages": FOUR_STAGES}


def swin_recipe(
    model: str,
    *,
    micro_batch: int,
    accumulation: int = 1,
    dp: int = 1,
    tp: int = 1,
    pp: int = 1,
    zero: int = 1,
    gathered_gb: float = 0.0,
    schedule: str = "1f1b",
    stages_per_rank: int = 1,
    dp_replicate: int = 1,
    recompute: bool = False,
    rates: bool = True,
    backward_lane: str = "shared",
) -> Recipe:
    """A resolved recipe; `rates` False turns drop path and dropout off."""
    off: dict[str, float] = {} if rates else {"drop_path": 0.0, "dropout": 0.0, "attention_dropout": 0.0}
    return Recipe(
        schedule=schedule,
        device=Device.CPU,
        model=replace(MODELS[model], **off, recompute=recompute),
        layout=LayoutConfig(
            dp=dp,
            tp=tp,
            pp=pp,
            zero=ZeroStage(zero),
            gathered_gb=gathered_gb,
            dp_replicate=dp_replicate,
            stages_per_rank=stages_per_rank,
            sequence_parallel=False,
            backward_lane=BackwardLane(backward_lane),
        ),
        batch=BatchConfig(
            global_batch=micro_batch * accumulation * dp, micro_batch=micro_batch, accumulation=accumulation
        ),
        optim=OptimConfig(lr=LR, clip=0.5, weight_decay=0.1),
    )


def digit_manifests(folder: Path) -> dict[str, str]:
    """Manifests of scikit-learn's digits, by model: as they are, and with each pixel four times."""
    from sklearn.datasets import load_digits

    def prepared(path: str) -> str:
        manifest = prepare_image_sets(
            train=[(path, 1.0, None)],
            evaluation=[],
            decoding=Decoding(),
            held_out=0.1,
            cache=folder / "cache",
            progress=None,
        )
        return str(manifest.path)

    found = load_digits()
    large = np.kron(np.rint(found.images * 255 / 16).astype(np.uint8), np.ones((1, 2, 2), np.uint8))
    np.savez(folder / "large.npz", images=large, labels=found.target)
    return {"small": prepared("digits"), "four stages": prepared(str(folder / "large.npz"))}


def digits(manifest: str, recipe: Recipe) -> ImageTrain:
    """The training images, moved, mirrored and blended."""
    augment = Augment(crop=1, flip=True, mixup=0.5)
    return open_image_train(read_manifest(Path(manifest)), seed=recipe.seed, augment=augment, num_classes=10)


def swin_run(
    rank: int,
    world_size: int,
    *,
    model: str,
    manifest: str,
    steps: int,
    first_step: int = 0,
    poison: float = 1.0,
    **layout: Any,
) -> dict[str, Any]:
    """Losses, norms, and this rank's owned gradients before the update of the first step."""
    recipe = swin_recipe(model, **layout)
    mesh = mesh_of(recipe.layout)
    assert mesh.size == world_size
    world = build_world(
        mesh,
        device=torch.device("cpu"),
        timeout_s=60,
        ends=ends_of(recipe),
        has_backward_lane=has_backward_lane(recipe),
    )
    engine, data = Engine(recipe, world), digits(manifest, recipe)
    out: dict[str, Any] = {"loss": [], "norm": [], "grads": []}
    batch = recipe.batch

    for step in range(first_step, first_step + steps):

        def before_update(step: int = step) -> None:
            for part in engine.parts:
                if poison != 1.0 and "bias_table" in part.name:
                    part.local_grad.mul_(poison)
                if step == first_step and part.is_owner:
                    out["grads"].append((part.name, part.shape, part.box, part.local_grad.numpy().copy()))

        indices = [
            index
            for part in step_indices(
                consumed_samples=step * batch.global_batch,
                global_batch=batch.global_batch,
                micro_batch=batch.micro_batch,
                dp=world.dp_size,
                dp_rank=world.dp_rank,
            )
            for index in part
        ]
        read = data.batch(indices) if engine.needs_data else None
        parts = micro_batches(indices, read, batch.accumulation, world.device)
        totals = engine.train_step(parts, lr=LR, step=step, before_update=before_update)
        out["loss"].append(totals.loss)
        out["norm"].append(totals.grad_norm)
    return out


def swin_plain(*, model: str, manifest: str, steps: int, global_batch: int, rates: bool = True) -> dict[str, Any]:
    """The same training in one process with plain torch."""
    recipe = swin_recipe(model, micro_batch=global_batch, rates=rates)
    value, data = model_of(recipe.model), digits(manifest, recipe)
    whole = StageModule(recipe.model, range(len(value.blocks)), None)
    materialise(whole, torch.device("cpu"))
    named = dict(whole.named_tensors())
    initialise([_part(spec, param) for spec, param in named.items()], seed=recipe.seed)
    adamw = torch.optim.AdamW(
        [
            {"params": [param for spec, param in named.items() if spec.decays], "weight_decay": 0.1},
            {"params": [param for spec, param in named.items() if not spec.decays], "weight_decay": 0.0},
        ],
        lr=LR,
        betas=recipe.optim.betas,
        eps=recipe.optim.eps,
    )
    out: dict[str, Any] = {"loss": [], "norm": [], "grads": {}}
    for step in range(steps):
        samples = tuple(range(step * global_batch, (step + 1) * global_batch))
        batch = data.batch(samples)
        logits = whole(torch.from_numpy(batch.images), Draws(seed=recipe.seed, step=step, samples=samples))
        loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(batch.targets))
        adamw.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(whole.parameters(), 0.5)
        if step == 0:
            out["grads"] = {spec.name: param.grad.numpy().copy() for spec, param in named.items()}
        adamw.step()
        out["loss"].append(loss.item())
        out["norm"].append(norm.item())
    return out


def _part(spec: Any, param: torch.nn.Parameter) -> ParameterPart:
    return ParameterPart(
        spec=spec,
        box=tuple((0, length) for length in spec.shape),
        param=param,
        tp_copies=1,
        is_owner=True,
        is_tp_partial=False,
        is_tied=False,
    )


__all__ = ["digit_manifests", "swin_plain", "swin_run"]
