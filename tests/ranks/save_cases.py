"""Cases that run the whole trainer with real saves, crash it, and take it up again, on any layout."""

import dataclasses
import errno
import itertools
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from emberward.checkpoint import DISK, BackgroundSaves, Keep, Storage
from emberward.data import Batch, MaskedText, Masking
from emberward.draws import key_of
from emberward.engine import Engine, StepTotals, build_world
from emberward.findings import EmberwardError
from emberward.plan import solve_batch
from emberward.rank._agreements import SaveAgreements, save_lane
from emberward.rank._signals import StopRequest
from emberward.rank._trainer import Trainer
from emberward.recipe import (
    HealthConfig,
    OnDamage,
    ReadBack,
    Recipe,
    SaveConfig,
    StartConfig,
    StartTake,
    mesh_of,
)
from emberward.report import RunFolder, open_sinks
from ranks.cases import BATCH, MASK, SEQ, VOCAB, small_recipe
from ranks.swin_cases import SMALL, digits

_LANES = itertools.count()


class Crash(Exception):
    """What stands for a crash: all ranks end at the same step."""


class Numbers:
    """Samples that can be learned, a pure function of their number, counted from `first`."""

    def __init__(self, first: int = 0) -> None:
        self._first = first

    def batch(self, indices: list[int]) -> Batch:
        tokens = np.empty((len(indices), SEQ + 1), dtype=np.int64)
        for row, index in enumerate(indices):
            generator = np.random.default_rng(self._first + index)
            tokens[row, 0] = generator.integers(VOCAB)
            for place in range(SEQ):
                tokens[row, place + 1] = (3 * tokens[row, place] + 1) % VOCAB
            noisy = generator.random(SEQ + 1) < 0.1
            tokens[row, noisy] = generator.integers(VOCAB, size=int(noisy.sum()))
        return Batch(tokens=tokens, mask=np.ones((len(indices), SEQ), dtype=np.float32))


def samples_of(recipe: Recipe, first: int, swin: str | None) -> Any:
    """What a run trains on: images where `swin` is their manifest, else numbers, some hidden from a roberta."""
    if swin is not None:
        return digits(swin, recipe)
    numbers = Numbers(first)
    if recipe.model.family != "roberta":
        return numbers
    masking = Masking(share=0.15, mask_id=MASK, specials=frozenset({MASK, 1}), num_ids=VOCAB)
    return MaskedText(numbers, masking, key=key_of(recipe.seed, "masking"))


class Crashing(Trainer):
    """Draws a random number a step, and ends before step `crash_at`."""

    crash_at: int | None = None
    spoil_at: int | None = None

    def _one_step(self, loader: Any) -> StepTotals:
        if self.position.step == self.crash_at:
            raise Crash
        if self.position.step == self.spoil_at:
            self.engine.parts[0].local.view(-1)[0] = float("nan")
        self.draws.append(float(torch.rand(())))
        return super()._one_step(loader)


class Slow:
    """A disk on which a data file takes its time."""

    def __getattr__(self, name: str) -> Any:
        return getattr(DISK, name)

    def create(self, path: Path) -> Any:
        if path.suffix == ".safetensors":
            time.sleep(0.4)
        return DISK.create(path)


class Full:
    """A disk that is full when the data file number `at` is made, counted from 1, and free again afterwards."""

    def __init__(self, at: int) -> None:
        self._left = at

    def __getattr__(self, name: str) -> Any:
        return getattr(DISK, name)

    def create(self, path: Path) -> Any:
        self._left -= path.suffix == ".safetensors"
        if self._left == 0:
            self._left = -1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return DISK.create(path)


def recipe_of(*, steps: int, interval: int, damaged: str = "refuse", background: bool = True, **layout: Any) -> Recipe:
    """A recipe of `steps` steps that saves every `interval`."""
    recipe = small_recipe(**layout)
    return dataclasses.replace(
        recipe,
        steps=steps,
        train_samples=steps * BATCH,
        sample_tokens=0,
        # Fewer steps in a first run must not bend the curve.
        optim=dataclasses.replace(recipe.optim, decay_samples=100 * BATCH, warmup_samples=0),
        save=SaveConfig(
            interval=interval, keep=None, background=background, damaged=OnDamage(damaged), verify=ReadBack.FULL
        ),
        health=HealthConfig(drift_interval=None, spike_ratio=None),
    )


def storage_of(rank: int, storage: str | None) -> Storage:
    """``slow``, or ``full R N``: rank R's N-th data file meets a full disk."""
    if storage == "slow":
        return Slow()
    _, culprit, at = (storage or "full -1 0").split()
    return Full(int(at)) if rank == int(culprit) else DISK


def train(
    rank: int,
    world_size: int,
    *,
    folder: str,
    steps: int,
    interval: int = 2,
    crash_at: int | None = None,
    spoil_at: int | None = None,
    storage: str | None = None,
    seed: int | None = None,
    only_resume: bool = False,
    first_sample: int = 0,
    start: dict[str, str] | None = None,
    swin: str | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """What this rank saw of a run in `folder`, from its newest save to step `steps` or a crash.

    `swin` is the manifest of the digits that a Swin with drop path and dropout trains on, None for a decoder.
    """
    recipe = recipe_of(steps=steps, interval=interval, **settings)
    if swin is not None:
        recipe = dataclasses.replace(recipe, model=SMALL)
    if start is not None:
        taken = StartTake(start.get("take", "weights"))
        recipe = dataclasses.replace(recipe, start=StartConfig(checkpoint=start["checkpoint"], take=taken))
    assert mesh_of(recipe.layout).size == world_size
    world = build_world(mesh_of(recipe.layout), device=torch.device("cpu"), timeout_s=60)
    run = RunFolder(path=Path(folder))
    run.checkpoints.mkdir(parents=True, exist_ok=True)
    agreements = SaveAgreements(
        dist.PrefixStore(f"lane {next(_LANES) if only_resume else 0}", distributed_c10d._get_default_store()),
        rank=rank,
        world_size=world_size,
        timeout_s=60,
    )
    trainer = Crashing(
        recipe=recipe,
        batch=solve_batch(global_batch=BATCH, micro_batch=recipe.batch.micro_batch, dp=world.dp_size),
        engine=Engine(recipe, world),
        train=samples_of(recipe, first_sample, swin),
        evals={},
        folder=run,
        stop=StopRequest(),
        data_digest="numbers",
        peak_tflops=None,
        background=BackgroundSaves(
            run.checkpoints,
            rank=rank,
            world_size=world_size,
            agreement=agreements.agreement,
            jobs=save_lane(),
            keep=Keep(),
            read_back=recipe.save.verify,
            storage=storage_of(rank, storage),
        ),
    )
    trainer.crash_at, trainer.spoil_at, trainer.draws = crash_at, spoil_at if rank == world_size - 1 else None, []
    error = None
    if seed is not None:
        torch.manual_seed(seed + rank)  # not before: making DTensors sets one seed everywhere
    try:
        trainer.resume()
        resumed = trainer.position.step
        if not only_resume:
            if rank == 0:
                trainer.sinks = open_sinks(metrics=run.metrics, keep_through=resumed)
            trainer.run()
    except (EmberwardError, Crash) as caught:
        error, resumed = str(caught), trainer.position.step
        trainer._saver.close()
    return {"resumed": resumed, "draws": trainer.draws, "error": error}


def findings_of(folder: Path) -> list[dict[str, Any]]:
    """What the run wrote down."""
    path = folder / "findings.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
