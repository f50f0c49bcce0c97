"""Cases of a run's watches on real ranks: copies that are made to differ, steps that are made not finite."""

from typing import Any

import torch

from emberward.engine import Engine, build_world
from emberward.events import Phase
from emberward.findings import EmberwardError
from emberward.layout import Axis
from emberward.rank._drift import RealDigests, ReplicaWatch
from emberward.rank._not_finite import inspect_step
from emberward.recipe import DriftPolicy, mesh_of
from ranks.cases import LR, micro_batches_of, small_recipe

NORM = "blocks.1.mlp_norm.weight"


def make_engine(**layout: Any) -> Engine:
    recipe = small_recipe(**layout)
    return Engine(recipe, build_world(mesh_of(recipe.layout), device=torch.device("cpu"), timeout_s=60))


def part_of(engine: Engine, name: str) -> torch.Tensor | None:
    return next((part.local for part in engine.parts if part.name == name), None)


def flip_a_bit(tensor: torch.Tensor) -> None:
    """Flips the lowest bit of the second element."""
    tensor.view(torch.int32)[1] ^= 1


def plant(engine: Engine, name: str | None, rank: int) -> None:
    """Changes the state of one rank in place, as memory or a stray line would."""
    if name == "bit" and rank == 3:
        flip_a_bit(part_of(engine, NORM))
    elif name == "moment" and rank == 0:
        moment = next(t for what, part, t in engine.optimizer.moments() if what == "exp_avg" and part.name == NORM)
        flip_a_bit(moment)
    elif name == "tied" and rank == engine.world.mesh.size - 1:
        part_of(engine, "embed.weight")[0, 3] += 1e-6
    elif name == "generator" and rank == 2:
        torch.rand(1)


def drift_run(
    rank: int,
    world_size: int,
    *,
    steps: int,
    fault: str | None = None,
    at: int = 0,
    every: int = 1,
    policy: str = "report",
    **layout: Any,
) -> dict[str, Any]:
    """Trains and compares; says what each check found, by step, and the digests of this rank's copies at the end."""
    torch.manual_seed(11)
    engine = make_engine(**layout)
    phases: list[Phase] = []
    watch = ReplicaWatch(engine, policy=DriftPolicy(policy), enter=lambda phase, count=None: phases.append(phase))

    def before_update() -> None:
        if fault == "clip on tp 0 alone" and engine.world.at(Axis.TP):
            for part in engine.parts:
                part.local_grad.mul_(3.0)

    found: dict[int, list[dict[str, Any]]] = {}
    error = None
    for step in range(1, steps + 1):
        batches = micro_batches_of(step, engine.recipe, engine.world.dp_rank)
        engine.train_step(batches, lr=LR, step=step - 1, before_update=before_update)
        if step == at:
            plant(engine, fault, rank)
        rate = LR * (2 if fault == "rate" and step >= at and rank == 1 else 1)
        if step % every == 0:
            try:
                findings = watch.check(step=step, state={"step": step, "learning rate": rate})
            except EmberwardError as stop:
                error = stop.to_finding().to_json()
                break
            if findings:
                found[step] = [finding.to_json() for finding in findings]
    digests = RealDigests(torch.device("cpu")).of_shards([each.shard for each in engine.replicas()])
    return {
        "found": found,
        "error": error,
        "names": [each.shard.name for each in engine.replicas()],
        "digests": digests.tolist(),
        "random": torch.get_rng_state().sum().item(),
        "phases": [(phase.step, phase.stage.value) for phase in phases],
    }


def inspected_run(rank: int, world_size: int, *, fault: str, on: int | None, **layout: Any) -> dict[str, Any]:
    """A step that is made not finite on rank `on` (None: on all), and what the inspection says of it."""
    engine = make_engine(**layout)
    batches = micro_batches_of(0, engine.recipe, engine.world.dp_rank)
    engine.train_step(batches, lr=LR, step=0)
    if on in (None, rank):
        if fault == "parameter":
            part_of(engine, NORM)[0] = float("nan")
        elif fault == "forward":
            part_of(engine, "blocks.3.mlp.down.weight").fill_(3e38)
        elif fault == "loss":
            part_of(engine, "final_norm.weight").fill_(1e30)
    batches = micro_batches_of(1, engine.recipe, engine.world.dp_rank)
    totals = engine.train_step(batches, lr=LR, step=1)
    before = [part.local.clone() for part in engine.parts]
    moments = [tensor.clone() for _, _, tensor in engine.optimizer.moments()]
    finding = inspect_step(engine, batches, step=1, lr=LR, watch=lambda each: each.inspected())
    unchanged = all(torch.equal(part.local, old) for part, old in zip(engine.parts, before, strict=True)
                    if bool(old.isfinite().all()))  # fmt: skip
    unchanged &= all(torch.equal(t, old) for (_, _, t), old in zip(engine.optimizer.moments(), moments, strict=True))
    return {"is_finite": totals.is_finite, "finding": finding.to_json(), "unchanged": unchanged}
