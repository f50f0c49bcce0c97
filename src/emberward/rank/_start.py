"""A new run that does not start from random weights: it takes those of a save."""

from collections.abc import Callable
from pathlib import Path

from emberward import checkpoint
from emberward.checkpoint import Manifest
from emberward.engine import Engine
from emberward.findings import EmberwardError
from emberward.rank._resume import shared_problem
from emberward.recipe import StartConfig, StartTake


def begin_from(engine: Engine, start: StartConfig, agree: Callable[[bool], bool]) -> Path | None:
    """The save whose weights the engine now has; None when the recipe names none.

    Every byte that is read is proved by its checksum, on any layout. Moments and the count of updates come too when
    `start.take` says so; steps, data, rates and random states are those of a new run. All ranks must call; blocks.
    Raises, alike on every rank, K121 or K102 for what does not fit and K101 for what is damaged.
    """
    if start.checkpoint is None:
        return None
    problem, manifest, path = None, None, None
    prefixes = ("model/",) if start.take is StartTake.WEIGHTS else ("model/", "optim/")
    try:
        path = checkpoint.find_start(Path(start.checkpoint).expanduser())
        manifest = checkpoint.read_manifest(path)
        shards = [shard for shard in engine.shards(owned_only=False) if shard.name.startswith(prefixes)]
        checkpoint.load(path, shards)
    except EmberwardError as error:
        problem = error
    problem = shared_problem(problem, engine, agree)
    if problem is not None:
        raise problem
    assert manifest is not None
    if start.take is StartTake.OPTIMIZER:
        engine.load_state({**engine.state(), "num_updates": _num_updates(manifest)})
    return path


def _num_updates(manifest: Manifest) -> int:
    """How many updates the moments have seen: as our own saves say it, or as an import found it."""
    own = (manifest.meta.get("engine") or {}).get("num_updates")
    return int(own if own is not None else manifest.meta.get("num_updates") or manifest.step)
