"""A whole training whose data is bad for a while, rewound to before it."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from emberward.data import Batch
from emberward.engine import Engine, build_world
from emberward.findings import EmberwardError
from emberward.plan import solve_batch
from emberward.rank._signals import StopRequest
from emberward.rank._trainer import Trainer
from emberward.recipe import EvalConfig, HealthConfig, Recipe, SaveConfig, SpikePolicy, mesh_of
from emberward.report import RunFolder, open_sinks
from emberward.runs import Act, Rewind, read_detours, rewind, undo_rewind
from ranks.cases import BATCH, SEQ, VOCAB, small_recipe

STEPS = 64
BAD = range(40 * BATCH, 44 * BATCH)
"""Samples that are noise: all of the steps 41 to 44."""
SAVE_EACH = 8
ACT = Act(who="ada@host", time="2026-11-21T20:00:00+00:00", why="noise in the data")


class Text:
    """Samples of a rule that is soon learned, but for the bad ones."""

    seq_len = SEQ

    def batch(self, indices: Any) -> Batch:
        tokens = np.empty((len(indices), SEQ + 1), dtype=np.int64)
        for row, index in enumerate(indices):
            rng = np.random.default_rng(index)
            tokens[row, 0] = rng.integers(VOCAB)
            for column in range(SEQ):
                tokens[row, column + 1] = (3 * tokens[row, column] + 1) % VOCAB
            if index in BAD:
                tokens[row] = rng.integers(VOCAB, size=SEQ + 1)
        return Batch(tokens=tokens, mask=np.ones((len(indices), SEQ), dtype=np.float32))


def spiky_recipe(*, on_spike: str, **layout: Any) -> Recipe:
    recipe = small_recipe(**layout)
    return dataclasses.replace(
        recipe,
        steps=STEPS,
        train_samples=STEPS * BATCH,
        sample_tokens=0,
        evaluation=EvalConfig(),
        save=SaveConfig(interval=SAVE_EACH, keep=1),
        optim=dataclasses.replace(recipe.optim, lr=4e-3, lr_min=4e-3, decay_samples=STEPS * BATCH),
        health=HealthConfig(drift_interval=16, on_spike=SpikePolicy(on_spike)),
    )


def attempt(folder: RunFolder, *, on_spike: str, stop_after: int | None, **layout: Any) -> str:
    """One attempt on the folder, resumed where it stands; how it ended."""
    recipe = spiky_recipe(on_spike=on_spike, **layout)
    world = build_world(mesh_of(recipe.layout), device=torch.device("cpu"), timeout_s=60)
    stop = StopRequest()
    trainer = Trainer(
        recipe=recipe if stop_after is None else dataclasses.replace(recipe, steps=stop_after),
        batch=solve_batch(global_batch=BATCH, micro_batch=recipe.batch.micro_batch, dp=recipe.layout.dp),
        engine=Engine(recipe, world),
        train=Text(),  # type: ignore[arg-type]
        evals={},
        folder=folder,
        stop=stop,
        data_digest="",
        peak_tflops=None,
        detours=read_detours(folder),
    )
    trainer.resume()
    if world.rank == 0:
        trainer.sinks = open_sinks(metrics=folder.metrics, keep_through=trainer.position.step)
    try:
        trainer.run()
    except EmberwardError as error:
        return f"{error.code} {error.what}"
    finally:
        if trainer.sinks is not None:
            trainer.sinks.close()
    return "done"


def spike_run(rank: int, world_size: int, *, folder: str, acts: list[tuple[str, Any]], **layout: Any) -> list[str]:
    """Plays `acts` in order: ("train", {...}), ("rewind", {...}), ("undo", {}); rank 0 does the latter two."""
    run = RunFolder(path=Path(folder))
    run.path.mkdir(parents=True, exist_ok=True)
    ends = []
    for name, details in acts:
        dist.barrier()
        if name == "train":
            ends.append(attempt(run, **{"on_spike": "report", "stop_after": None, **details}, **layout))
        elif rank == 0 and name == "rewind":
            rewind(run, Rewind(**details), ACT)
        elif rank == 0 and name == "undo":
            undo_rewind(run, ACT)
        dist.barrier()
    return ends
