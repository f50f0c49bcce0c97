"""Cases that hold real ranks to the program that another rank of their role ran dry, with and without a plant."""

import contextlib
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from emberward.engine import Engine, build_world
from emberward.events import Phase
from emberward.families import model_of
from emberward.plan import solve_batch
from emberward.rank._certificate import CertificateWatch
from emberward.rank._dry import NoSaves, dry_run, rehearse_save
from emberward.rank._rehearsal import script_of
from emberward.rank._samples import BlankSamples
from emberward.rank._signals import StopRequest
from emberward.rank._trainer import Trainer
from emberward.recipe import CertificatePolicy, RampUp, Recipe, ends_of, mesh_of
from emberward.report import RunFolder
from emberward.sources import Departure, DepartureError, RoleProgram, Transport
from ranks.dry_cases import EVAL_SETS, whole_recipe

RAMP = RampUp(start=4, increment=4, samples=16)
STEP_OF_PLANT = 2


def recipe_of(*, is_ramped: bool, **layout: Any) -> tuple[Recipe, Any]:
    """A recipe that evaluates at odd steps, and its batches: with a ramp-up the accumulation is 1, 2, 3, then 4."""
    recipe = whole_recipe(**layout)
    recipe = replace(recipe, evaluation=replace(recipe.evaluation, interval=3), steps=8)
    dp = recipe.layout.dp
    size = RAMP.start // dp if is_ramped else recipe.batch.micro_batch
    batch = solve_batch(global_batch=16, micro_batch=size, dp=dp, ramp_up=RAMP if is_ramped else None)
    return replace(recipe, batch=replace(recipe.batch, micro_batch=size)), batch


def rehearsed(rank: int, world_size: int, *, is_ramped: bool = False, **layout: Any) -> RoleProgram:
    """What this rank did in its dry run."""
    dist.destroy_process_group()
    recipe, batch = recipe_of(is_ramped=is_ramped, **layout)
    return dry_run(script_of(recipe, batch, EVAL_SETS), rank, transport=Transport.GLOO).program


def held(
    rank: int,
    world_size: int,
    *,
    folder: str,
    programs: list[RoleProgram],
    plant: str | None = None,
    culprit: int = 1,
    policy: str = "stop",
    is_ramped: bool = False,
    stops_at: int | None = None,
    **layout: Any,
) -> dict[str, Any]:
    """How this rank's run ended under its certificate: 'done', or the error's text, and what the guard had seen."""
    recipe, batch = recipe_of(is_ramped=is_ramped, **layout)
    mesh = mesh_of(recipe.layout)
    run_folder = RunFolder(path=Path(folder))
    watch = CertificateWatch(run_folder, programs[rank], rank=rank, policy=CertificatePolicy(policy))
    with watch.watching():
        world = build_world(mesh, device=torch.device("cpu"), timeout_s=60, ends=ends_of(recipe))
        plan = Plant(plant if rank == culprit else None, watch)
        trainer = trainer_of(recipe, batch, Engine(recipe, world), run_folder, plan, stops_at)
        with plan.planted(trainer.engine):
            end = trainer.run().value
    guard = watch.guard
    assert guard is not None
    return {
        "end": end,
        "departures": plan.told,
        "position": guard.position,
        "hash": guard.hash,
        "step": trainer.position.step,
        "skipped": trainer.position.num_skipped,
        "not_certified": list(guard.not_certified),
    }


class Plant:
    """A change of this rank's program in one step alone.

    What the guard refuses is done right after all: that rank's peers then end, and the pool lives on.
    """

    def __init__(self, name: str | None, watch: CertificateWatch) -> None:
        self.name = name
        self.told: list[tuple[Departure, int]] = []
        self._watch = watch
        self._reduce = dist.all_reduce

    def enter(self, phase: Phase, count: int | None = None, /) -> None:
        """Tells the watch that a part of the run begins; makes the call that was left out when it says so."""
        try:
            self._watch.enter(phase, count)
        except DepartureError as error:
            self._note(error)
            self._reduce(torch.zeros(6, dtype=torch.float64))
            self._watch.enter(phase, count)

    def _note(self, error: DepartureError) -> None:
        assert self._watch.guard is not None
        self.told.append((error.departure, self._watch.guard.position))

    def _changed(self, tensor: torch.Tensor, *args: Any, **named: Any) -> Any:
        """The sum of the step's totals, changed."""
        if tensor.dtype is not torch.float64:
            return self._reduce(tensor, *args, **named)
        if self.name == "skipped":
            return None
        try:
            return self._reduce(tensor.float() if self.name == "another type" else tensor[:-1], *args, **named)
        except DepartureError as error:
            self._note(error)
            return self._reduce(tensor, *args, **named)

    @contextlib.contextmanager
    def planted(self, engine: Engine) -> Iterator[None]:
        """The change, while open."""
        kept = engine.train_step

        def train_step(*args: Any, **named: Any) -> Any:
            if named["step"] != STEP_OF_PLANT or self.name is None:
                return kept(*args, **named)
            if self.name == "not finite":
                # A value, and no call: the look-alike of a departure.
                with own_loss_not_finite(engine):
                    return kept(*args, **named)
            if self.name == "extra":
                try:
                    dist.all_reduce(torch.zeros(3))
                except DepartureError as error:
                    self._note(error)
                return kept(*args, **named)
            dist.all_reduce = self._changed
            try:
                return kept(*args, **named)
            finally:
                dist.all_reduce = self._reduce

        engine.train_step = train_step  # type: ignore[method-assign]
        try:
            yield
        finally:
            engine.train_step = kept  # type: ignore[method-assign]


@contextlib.contextmanager
def own_loss_not_finite(engine: Engine) -> Iterator[None]:
    """This rank's own sum of losses is not a number, while open."""
    engine._own_sums = lambda sums: torch.tensor([math.nan, 1.0], dtype=torch.float64)  # type: ignore[method-assign]
    try:
        yield
    finally:
        del engine._own_sums


def trainer_of(
    recipe: Recipe, batch: Any, engine: Engine, folder: RunFolder, plant: Plant, stops_at: int | None
) -> Trainer:
    """A trainer on blank text; from step `stops_at` on this rank is asked to stop, if it is the last one."""
    sample = model_of(recipe.model).sample
    blank = BlankSamples(sample, num_samples=0)
    sets = {name: BlankSamples(sample, num_samples=4 * size) for name, size in EVAL_SETS.items()}
    stop = StopRequest()

    def enter(phase: Phase, count: int | None = None, /) -> None:
        plant.enter(phase, count)
        if stops_at is not None and phase.step == stops_at and engine.world.rank == engine.world.mesh.size - 1:
            stop.signal = 15

    return Trainer(
        recipe=recipe,
        batch=batch,
        engine=engine,
        train=blank,
        evals=sets,
        folder=folder,
        stop=stop,
        data_digest="",
        peak_tflops=None,
        save=rehearse_save,
        background=NoSaves(),
        enter=enter,
    )
