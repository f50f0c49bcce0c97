"""Cases that run on ranks, and the plain one-process training they are held against.

`plain_run` shares nothing with the engine but the model's modules and the initial values: no sharding, no pipeline,
no executor, torch's own AdamW and clipping.
"""

import math
import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from emberward.draws import Draws
from emberward.engine import Engine, MicroBatch, StageModule, build_world
from emberward.engine._shard import ParameterPart, initialise, materialise
from emberward.families import LlamaConfig, ModelConfig, RobertaConfig, model_of
from emberward.recipe import (
    BatchConfig,
    ComputeType,
    Device,
    LayoutConfig,
    OptimConfig,
    PrecisionConfig,
    Recipe,
    ZeroStage,
    ends_of,
    mesh_of,
)

VOCAB, SEQ, BATCH = 64, 16, 16
MASK = VOCAB - 1
LR = 1e-2


def small_recipe(
    *,
    dp: int = 1,
    tp: int = 1,
    pp: int = 1,
    accumulation: int = 1,
    zero: int = 1,
    gathered_gb: float = 0.0,
    schedule: str = "1f1b",
    stages_per_rank: int = 1,
    dp_replicate: int = 1,
    sequence_parallel: bool | None = True,
    seq_len: int = SEQ,
    compute: str = "fp32",
    clip: float | None = 0.5,
    recompute: bool = False,
    stage_layers: tuple[int, ...] | None = None,
    family: str = "bloom",
    kv_heads: int | None = None,
    head_size: int | None = None,
    tied: bool = False,
    rate: float = 0.0,
    debug: tuple[str, ...] = (),
    device: str = "auto",
) -> Recipe:
    """A resolved recipe of a four-layer model over 16 samples a step; `rate` is that of both kinds of dropout."""
    return Recipe(
        schedule=schedule,
        debug=debug,
        device=Device(device),
        model=ModelConfig(
            family=family,
            llama=LlamaConfig(
                num_kv_heads=kv_heads,
                head_size=head_size,
                is_tied=tied,
                rope_theta=100.0,
                rope_factor=4.0,
                rope_positions=8,
            ),
            roberta=RobertaConfig(mask_id=MASK, pad_id=1, num_positions=seq_len + 2),
            dropout=rate,
            attention_dropout=rate,
            num_layers=4,
            hidden=32,
            num_heads=4,
            ffn_hidden=128,
            vocab_size=VOCAB,
            seq_len=seq_len,
            init_std=0.1,
            recompute=recompute,
        ),
        layout=LayoutConfig(
            dp=dp,
            tp=tp,
            pp=pp,
            zero=ZeroStage(zero),
            gathered_gb=gathered_gb,
            dp_replicate=dp_replicate,
            stages_per_rank=stages_per_rank,
            sequence_parallel=sequence_parallel,
            stage_layers=stage_layers,
        ),
        batch=BatchConfig(global_batch=BATCH, micro_batch=BATCH // (dp * accumulation), accumulation=accumulation),
        optim=OptimConfig(lr=LR, clip=clip, weight_decay=0.1),
        precision=PrecisionConfig(compute=ComputeType(compute)),
    )


def batch_of(step: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Tokens, labels and weights [16, S] of a step; weights are uneven, so that averages of averages are wrong."""
    generator = torch.Generator().manual_seed(1000 + step)
    # A learnable rule (next = 3 * token + 1) with noise, so that the loss falls.
    tokens = torch.randint(0, VOCAB, (BATCH, SEQ), generator=generator)
    labels = (3 * tokens + 1) % VOCAB
    noise = torch.rand((BATCH, SEQ), generator=generator) < 0.1
    labels = torch.where(noise, torch.randint(0, VOCAB, (BATCH, SEQ), generator=generator), labels)
    weights = (torch.rand((BATCH, SEQ), generator=generator) < torch.linspace(0.2, 1.0, BATCH)[:, None]).float()
    return tokens, labels, weights


def micro_batches_of(step: int, recipe: Recipe, dp_rank: int) -> list[MicroBatch]:
    """This dp rank's micro-batches of a step."""
    size, count = recipe.batch.micro_batch, recipe.batch.accumulation
    assert size is not None and count is not None
    rows = [torch.arange(size) + size * (dp_rank * count + mb) for mb in range(count)]
    tokens, labels, weights = (each[:, : recipe.model.seq_len] for each in batch_of(step))
    return [
        MicroBatch(
            inputs=tokens[row],
            labels=labels[row],
            weights=weights[row],
            samples=tuple((step * BATCH + row).tolist()),
        )
        for row in rows
    ]


def engine_run(
    rank: int,
    world_size: int,
    *,
    steps: int,
    keep_grads_of: int | None = None,
    poison: str | None = None,
    keep_events: bool = False,
    **layout: Any,
) -> dict[str, Any]:
    """Losses, norms and (on request) this rank's owned gradients before the update of one step."""
    recipe = small_recipe(**layout)
    mesh = mesh_of(recipe.layout)
    assert mesh.size == world_size
    world = build_world(mesh, device=torch.device("cpu"), timeout_s=60, ends=ends_of(recipe))
    engine = Engine(recipe, world)
    out: dict[str, Any] = {"loss": [], "norm": [], "grads": [], "events": []}

    for step in range(steps):

        def before_update(step: int = step) -> None:
            if poison == "one_percent":
                part = next(part for part in engine.parts if part.name == "blocks.1.mlp.up.weight")
                part.local_grad.mul_(1.01)
            elif poison == "clip_on_tp0_only" and world.coordinates and rank % layout.get("tp", 1):
                for part in engine.parts:
                    part.local_grad.mul_(3.0)
            if step == keep_grads_of:
                for part in engine.parts:
                    if part.is_owner:
                        out["grads"].append((part.name, part.shape, part.box, part.local_grad.numpy().copy()))

        sink = _List(out["events"]) if keep_events else None
        began_s = time.perf_counter()
        totals = engine.train_step(
            micro_batches_of(step, recipe, world.dp_rank), lr=LR, step=step, sink=sink, before_update=before_update
        )
        out["step_s"], out["parts_s"] = time.perf_counter() - began_s, dict(engine.step_seconds)
        out["loss"].append(totals.loss)
        out["norm"].append(totals.grad_norm)
    out["replicas"] = [
        (part.name, part.box, part.local.numpy().copy()) for part in engine.parts if len(part.shape) == 1
    ]
    return out


class _List:
    def __init__(self, events: list[Any]) -> None:
        self._events = events

    def put(self, event: Any) -> None:
        self._events.append(event)


def assemble(answers: list[dict[str, Any]], key: str) -> dict[str, np.ndarray]:
    """Whole tensors from the owned pieces of all ranks; every element must be given exactly once."""
    whole: dict[str, np.ndarray] = {}
    count: dict[str, np.ndarray] = {}
    for answer in answers:
        for name, shape, box, piece in answer[key]:
            where = tuple(slice(start, stop) for start, stop in box)
            whole.setdefault(name, np.full(shape, np.nan, np.float32))[where] = piece
            count.setdefault(name, np.zeros(shape, np.int64))[where] += 1
    for name, times in count.items():
        assert (times == 1).all(), f"{name}: an element has {times.min()}..{times.max()} owners"
    return whole


def plain_model(recipe: Recipe) -> StageModule:
    """The whole model on one process with the engine's initial values."""
    stage = StageModule(recipe.model, range(len(model_of(recipe.model).blocks)), None)
    materialise(stage, torch.device("cpu"))
    parts = [
        ParameterPart(
            spec=spec,
            box=tuple((0, n) for n in spec.shape),
            param=param,
            tp_copies=1,
            is_owner=True,
            is_tp_partial=False,
            is_tied=False,
        )
        for spec, param in stage.named_tensors()
    ]
    initialise(parts, seed=recipe.seed)
    return stage


def plain_run(
    *, steps: int, keep_grads_of: int | None = None, clip: float | None = 0.5, seq_len: int = SEQ, **model_keys: Any
) -> dict[str, Any]:
    """The same training in one process with plain torch."""
    recipe = small_recipe(clip=clip, seq_len=seq_len, **model_keys)
    model = plain_model(recipe)
    matrices = [param for param in model.parameters() if param.dim() > 1]
    vectors = [param for param in model.parameters() if param.dim() == 1]
    adamw = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}],
        lr=LR,
        betas=recipe.optim.betas,
        eps=recipe.optim.eps,
    )
    out: dict[str, Any] = {"loss": [], "norm": [], "grads": {}}
    for step in range(steps):
        tokens, labels, weights = (each[:, :seq_len] for each in batch_of(step))
        samples = tuple(range(step * BATCH, (step + 1) * BATCH))
        logits = model(tokens, Draws(seed=recipe.seed, step=step, samples=samples))
        losses = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
        loss = (losses * weights.flatten()).sum() / weights.sum()
        adamw.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), clip if clip is not None else math.inf)
        if step == keep_grads_of:
            for spec, param in model.named_tensors():
                out["grads"][spec.stored_name] = param.grad.numpy().copy()
        adamw.step()
        out["loss"].append(loss.item())
        out["norm"].append(norm.item())
    return out


def relative(found: list[float], expected: list[float]) -> float:
    """Greatest relative difference."""
    return max(abs(a - b) / abs(b) for a, b in zip(found, expected, strict=True))


__all__ = ["assemble", "batch_of", "engine_run", "micro_batches_of", "plain_run", "relative", "replace", "small_recipe"]
