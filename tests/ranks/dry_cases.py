"""Cases that record a real run of the whole trainer on gloo, and the dry run of the same rank in the same process."""

import dataclasses
import itertools
import math
import shutil
import signal
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from emberward import checkpoint
from emberward.engine import Engine, World, build_world
from emberward.engine._world import host_values
from emberward.plan import solve_batch
from emberward.rank._agreements import saves_beside
from emberward.rank._dry import PartMarks, Rehearsed, dry_run, site_finder
from emberward.rank._rehearsal import STOPPED, PhaseMarker, Script, Stage, play, script_of
from emberward.rank._signals import StopRequest
from emberward.recipe import EvalConfig, Recipe, SaveConfig, ends_of, mesh_of
from emberward.report import RunFolder
from emberward.sources import Tape, Transport
from emberward.sources.recorder import Recorder
from ranks.cases import small_recipe
from ranks.swin_cases import swin_recipe

EVAL_SETS = {"held out": 21, "news": 5}
"""Sizes that leave padding on some ranks and whole micro-batches of it on others."""


def whole_recipe(*, background: bool = True, family: str = "bloom", **layout: Any) -> Recipe:
    """A resolved recipe that evaluates and saves in the middle of the run, clips and samples."""
    recipe = swin_recipe("small", **layout) if family == "swin" else small_recipe(family=family, **layout)
    train_samples = 10 * recipe.batch.global_batch
    return dataclasses.replace(
        recipe,
        steps=10,
        train_samples=train_samples,
        sample_tokens=2,
        sample_prompt="1 2",
        evaluation=EvalConfig(interval=2, samples=64, micro_batch=2),
        save=SaveConfig(interval=2, keep=1, background=background),
        optim=dataclasses.replace(recipe.optim, decay_samples=train_samples),
    )


def script(**layout: Any) -> Script:
    recipe = whole_recipe(**layout)
    sizes = recipe.batch
    batch = solve_batch(global_batch=sizes.global_batch, micro_batch=sizes.micro_batch, dp=recipe.layout.dp)
    return script_of(recipe, batch, EVAL_SETS)


def live_run(rank: int, folder: str, played: Script, *, plant: str | None) -> Rehearsed:
    """What this rank really does in the rehearsal, over gloo, with real tensors, files and a real stop request."""
    tape = Tape(rank, find_site=site_finder().here, transport=Transport.GLOO)
    parts = PartMarks(tape)
    marker = PhaseMarker(tape.mark, begin=parts.begin)
    numbers = itertools.count()
    poisoned: list[bool] = [False]

    def engine_of(recipe: Recipe, world: World) -> Engine:
        engine = Engine(recipe, world)
        own_sums = engine._own_sums
        engine._own_sums = lambda sums: own_sums(sums) * (math.nan if poisoned[0] else 1.0)  # type: ignore[method-assign]
        return engine

    def before_part(name: str, stop: StopRequest) -> None:
        dist.barrier()
        if rank == 0:
            shutil.rmtree(folder, ignore_errors=True)
            Path(folder).mkdir()
        dist.barrier()
        is_last = name == STOPPED and rank == dist.get_world_size() - 1
        if is_last:
            stop.signal = signal.SIGTERM
        poisoned[0] = name == STOPPED and rank == 0

    with Recorder(tape).recording():
        world = build_world(
            mesh_of(played.recipe.layout), device=torch.device("cpu"), timeout_s=60, ends=ends_of(played.recipe)
        )
        stage = Stage(
            world=dataclasses.replace(world, read=tape.noting_reads(host_values), mark=marker.inner),
            folder=RunFolder(path=Path(folder)),
            enter=marker.enter,
            save=checkpoint.save,
            background=lambda: beside(played.recipe, world, Path(folder), part=next(numbers)),
            before_part=without(tape, before_part),
            engine=engine_of,
        )
        with planted(plant, rank):
            play(played, stage)
    return Rehearsed(events=tape.events(), program=parts.program())


def beside(recipe: Recipe, world: World, folder: Path, *, part: int) -> checkpoint.BackgroundSaves:
    """Saves beside the training over the store of the case's group; each part of the rehearsal has keys of its own."""
    store = dist.PrefixStore(f"saves of part {part}", distributed_c10d._get_default_store())
    return saves_beside(RunFolder(path=folder).checkpoints, recipe, world, store)


def without(tape: Tape, work: Any) -> Any:
    """`work`, unrecorded: it is the test's own."""

    def silent(*args: Any) -> None:
        notes, tape._notes = tape._notes, []
        try:
            work(*args)
        finally:
            tape._notes = notes

    return silent


class planted:
    """A change of one rank's real program that no communication shows as an error, while open."""

    def __init__(self, name: str | None, rank: int) -> None:
        self.name = name if rank == 1 else None

    def __enter__(self) -> None:
        self.kept = Engine.evaluate, Engine.train_step
        if self.name == "late wait":
            # The same calls in the same order, one of them waited for later.
            def evaluate(engine: Engine, *args: Any, **named: Any) -> Any:
                alone = engine.world.channels["dp_shard"].handle
                work = dist.all_reduce(torch.zeros(1), group=alone, async_op=True)
                answer = self.kept[0](engine, *args, **named)
                work.wait()
                return answer

            Engine.evaluate = evaluate
        if self.name == "extra call":

            def train_step(engine: Engine, *args: Any, **named: Any) -> Any:
                dist.all_reduce(torch.zeros(3), group=engine.world.channels["dp_shard"].handle)
                return self.kept[1](engine, *args, **named)

            Engine.train_step = train_step

    def __exit__(self, *error: object) -> None:
        Engine.evaluate, Engine.train_step = self.kept


def both(rank: int, world_size: int, *, folder: str, plant: str | None = None, **layout: Any) -> dict[str, Any]:
    """This rank's events and calls by segment: live, then dry."""
    played = script(**layout)
    assert mesh_of(played.recipe.layout).size == world_size
    live = live_run(rank, folder, played, plant=plant)
    dist.destroy_process_group()
    dry = dry_run(played, rank, transport=Transport.GLOO)
    return {"live": live.events, "dry": dry.events, "live program": live.program, "dry program": dry.program}
