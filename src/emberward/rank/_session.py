"""One rank from its first connection to its last save."""

import argparse
import hashlib
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store, TCPStore

from emberward.data import Manifest, open_eval, open_train, read_manifest
from emberward.engine import Engine, World, build_world
from emberward.layout import Axis
from emberward.perf import peak_of
from emberward.rank._device import ChosenDevice, choose_device
from emberward.rank._place import Place
from emberward.rank._signals import StopRequest
from emberward.rank._skew import fingerprint, require_equal_fingerprints
from emberward.rank._trainer import Outcome, Trainer
from emberward.recipe import Resolved, mesh_of, read_resolved
from emberward.report import RunFolder, open_sinks, write_json

START_TIMEOUT_S = 120.0
EXIT_STOPPED = 75
"""Saved after a signal and asks to be started again (sysexits.h EX_TEMPFAIL)."""


def run_rank(place: Place, folder: RunFolder | None, options: argparse.Namespace) -> int:
    """The exit code of this rank: 0 when done, or stopped under Emberward's launcher; 75 when stopped otherwise."""
    stop = StopRequest()
    stop.install()
    assert folder is not None, "written below for plain torchrun"
    _write_rank_file(folder, place, None)
    resolved = read_resolved(folder.config)
    manifest = read_manifest(Path(json.loads(folder.data.read_text(encoding="utf-8"))["manifest"]))
    store = _open_store(place)
    require_equal_fingerprints(
        store,
        fingerprint(
            torch_version=torch.__version__,
            config_digest=hashlib.sha256(repr(resolved.recipe).encode()).hexdigest(),
            data_digest=manifest.digest,
        ),
        rank=place.rank,
        host=place.host,
        world_size=place.world_size,
        timeout_s=START_TIMEOUT_S,
    )
    chosen = choose_device(resolved.recipe.device, local_rank=place.local_rank, local_world_size=place.local_world_size)
    dist.init_process_group(
        chosen.backend,
        store=PrefixStore("world", store),
        rank=place.rank,
        world_size=place.world_size,
        timeout=timedelta(seconds=resolved.recipe.timeout_s),
    )
    world = build_world(mesh_of(resolved.recipe.layout), device=chosen.device, timeout_s=resolved.recipe.timeout_s)
    _write_rank_file(folder, place, world)
    trainer = _build_trainer(resolved, world, folder, manifest, chosen, stop)
    outcome = trainer.run()
    dist.destroy_process_group()
    return EXIT_STOPPED if outcome is Outcome.STOPPED and not place.is_supervised else 0


def _open_store(place: Place) -> Store:
    """The rendezvous store of this attempt. Blocks until the rank that serves it is there, at most START_TIMEOUT_S."""
    tcp = TCPStore(
        place.master,
        place.port,
        world_size=place.world_size,
        is_master=place.must_host_store,
        timeout=timedelta(seconds=START_TIMEOUT_S),
        wait_for_workers=False,
        multi_tenant=True,
    )
    # An agent's store outlives an attempt: keys of an earlier one must not be read.
    return PrefixStore(f"emberward/{place.attempt}", tcp)


def _build_trainer(
    resolved: Resolved, world: World, folder: RunFolder, manifest: Manifest, chosen: ChosenDevice, stop: StopRequest
) -> Trainer:
    recipe = resolved.recipe
    trainer = Trainer(
        recipe=recipe,
        batch=resolved.batch,
        engine=Engine(recipe, world),
        train=open_train(manifest, seed=recipe.seed, seq_len=recipe.model.seq_len),
        evals=open_eval(manifest, seq_len=recipe.model.seq_len, max_samples=recipe.evaluation.samples),
        folder=folder,
        stop=stop,
        data_digest=manifest.train_digest,
        peak_tflops=_peak_tflops(chosen),
    )
    trainer.resume()
    if world.rank == 0:
        trainer.sinks = open_sinks(
            metrics=folder.metrics,
            keep_through=trainer.position.step,
            tensorboard=folder.tensorboard if recipe.log.tensorboard else None,
            wandb=recipe.log.wandb,
            wandb_name=f"{folder.name}-{folder.id}",
            prometheus_port=recipe.log.prometheus_port,
        )
    return trainer


def _peak_tflops(chosen: ChosenDevice) -> float | None:
    peak = peak_of(chosen.name)
    return None if peak is None else peak.tflops


def _write_rank_file(folder: RunFolder, place: Place, world: World | None) -> None:
    """Says who this rank is: at once by its pid, and again with its coordinates when the mesh is known."""
    folder.ranks.mkdir(parents=True, exist_ok=True)
    coordinates = None
    if world is not None:
        coordinates = {"pp": world.at(Axis.PP), "dp": world.dp_rank, "tp": world.at(Axis.TP)}
    write_json(
        folder.rank_file(place.rank),
        {
            "rank": place.rank,
            "pid": os.getpid(),
            "host": place.host,
            "coordinates": coordinates,
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
        },
    )
