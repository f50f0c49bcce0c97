"""One rank from its first connection to its last save."""

import contextlib
import gc
import os
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store, TCPStore

from emberward.checkpoint import BackgroundSaves
from emberward.engine import Engine, World, build_world
from emberward.layout import Axis
from emberward.perf import peak_of
from emberward.rank._agreements import saves_beside
from emberward.rank._certificate import CertificateWatch, read_program
from emberward.rank._device import ChosenDevice, choose_device, device_peak_bytes
from emberward.rank._events import Enter, told
from emberward.rank._inspections import Inspections
from emberward.rank._join import Joined, Wanted, join_run
from emberward.rank._nccl import set_for_nccl
from emberward.rank._place import RankInfo
from emberward.rank._samples import open_samples
from emberward.rank._signals import StopRequest
from emberward.rank._skew import START_TIMEOUT_S, fingerprint, require_equal_fingerprints
from emberward.rank._staged import CudaDevice, StagedTransfers
from emberward.rank._start_phase import (
    CONNECTS,
    DATA,
    FIRST_STEP,
    GROUPS,
    LOADS,
    MEETS,
    MODEL,
    report_start,
)
from emberward.rank._trainer import RankOutcome, Trainer
from emberward.recipe import ComputeType, ends_of, has_backward_lane, mesh_of
from emberward.report import RunFolder, Sinks, open_sinks, read_json, read_run, run_text, write_json
from emberward.runs import read_detours, recipe_digest

LEAVE_LIMIT_S = 10.0
EXIT_STOPPED = 75
"""Saved after a signal and asks to be started again (sysexits.h EX_TEMPFAIL)."""


class Session:
    """One rank's part in a run: `run` it, then `leave`.

    `folder` is the run's folder as soon as it is known.
    """

    def __init__(self, place: RankInfo, wanted: Wanted) -> None:
        self.folder = None if wanted.folder is None else RunFolder(path=wanted.folder)
        self._place = place
        self._wanted = wanted
        self._store: Store | None = None
        self._is_among_others = True

    def run(self) -> int:
        """The exit code of this rank: 0 when done, stopped by the kill switch or under Emberward's launcher, else 75.

        All ranks must call; blocks to the end of the run.
        """
        stop = StopRequest()
        stop.install()
        place = self._place
        if self.folder is not None:
            _write_rank_file(self.folder, place, None)
            report_start(self.folder, MEETS, rank=place.rank)
        self._store = _open_store(place)
        joined = join_run(self._wanted, place, self._store)
        self.folder = joined.folder
        if self._wanted.joined is not None and place.local_rank == 0:
            write_json(self._wanted.joined, {"folder": str(joined.folder.path), "rank": place.rank})
        _require_equal_ranks(self._store, place, joined)
        self._is_among_others = False
        if place.local_rank == 0:
            stop.watch(self._wanted.kill_switch or joined.folder.kill_switch)
        if joined.world is not None:
            stop.guard(joined.folder.launch, joined.world)
        recipe = joined.resolved.recipe
        report_start(joined.folder, CONNECTS, rank=place.rank)
        chosen = choose_device(
            recipe.device, recipe.backend, local_rank=place.local_rank, local_world_size=place.local_world_size
        )
        staged = StagedTransfers(CudaDevice(), say=sys.stderr.write) if chosen.is_staged else None
        if staged is not None:
            staged.install()
        if chosen.is_nccl:
            sys.stderr.write(f"NCCL on {chosen.device}: {set_for_nccl(os.environ)}\n")
        dist.init_process_group(
            chosen.backend,
            # NCCL makes the world's communicator now, not at the first call, and knows the device of a barrier.
            device_id=chosen.device if chosen.is_nccl else None,
            store=PrefixStore("world", self._store),
            rank=place.rank,
            world_size=place.world_size,
            timeout=timedelta(seconds=recipe.timeout_s),
        )
        program = read_program(joined.folder, rank=place.rank, recipe=recipe_digest(joined.resolved))
        watch = CertificateWatch(
            joined.folder,
            program,
            rank=place.rank,
            policy=recipe.log.certificate,
            is_supervised=place.is_supervised,
        )
        with watch.watching():
            report_start(joined.folder, GROUPS, rank=place.rank)
            world = build_world(
                mesh_of(recipe.layout),
                device=chosen.device,
                timeout_s=recipe.timeout_s,
                ends=ends_of(recipe),
                has_backward_lane=has_backward_lane(recipe),
            )
            world = replace(world, say=sys.stderr.write)
            _write_rank_file(joined.folder, place, world, device=chosen.name)
            beside = saves_beside(joined.folder.checkpoints, recipe, world, PrefixStore("saves", self._store))
            inspections = Inspections(joined.folder, rank=place.rank, local_world_size=place.local_world_size)
            trainer = _build_trainer(joined, world, chosen, stop, told(watch.enter), beside, inspections)
            held = sum(
                each.tensor.numel() * each.tensor.element_size() for each in trainer.engine.shards(owned_only=False)
            )
            _write_rank_file(joined.folder, place, world, device=chosen.name, held_bytes=held)
            _wake_collector()
            report_start(joined.folder, LOADS, rank=place.rank)
            trainer.resume(is_unattended=place.is_restart)
            trainer.sinks = _open_sinks(joined, trainer)
            trainer.is_heard = not place.is_supervised
            report_start(joined.folder, FIRST_STEP, rank=place.rank)
            inspections.watch()
            outcome = trainer.run()
            _tell_peak(joined.folder, place.rank, device_peak_bytes(chosen.device))
        if trainer.is_heard and place.rank == 0:
            sys.stdout.write("\n" + run_text(read_run(joined.folder)) + "\n")
        dist.destroy_process_group()
        if staged is not None:
            staged.remove()
        self._is_among_others = True
        # A supervisor reads how the run ended; an agent that restarts ranks would take 75 for a failure.
        is_read = place.is_supervised or self._wanted.joined is not None
        asks_again = outcome is RankOutcome.STOPPED and not trainer.is_switched_off and not is_read
        return EXIT_STOPPED if asks_again else 0

    def leave(self) -> None:
        """Waits until every rank has said its last word, at most LEAVE_LIMIT_S; not after a failure in training.

        A launcher may end all ranks as soon as one has gone (``srun --kill-on-bad-exit``), and with rank 0 goes the
        store in which the others still read why they may not start.
        """
        if self._store is None or not self._is_among_others:
            return
        rank, limit = self._place.rank, timedelta(seconds=LEAVE_LIMIT_S)
        # A rank that never came, or a store that went with its rank, must not keep this one.
        with contextlib.suppress(RuntimeError):
            self._store.set(f"ready/{rank}", "")
            others = range(1, self._place.world_size)
            if rank == 0:
                self._store.wait([f"ready/{other}" for other in others], limit)
                self._store.set("leave", "")
                self._store.wait([f"gone/{other}" for other in others], limit)
            else:
                self._store.wait(["leave"], limit)
                self._store.set(f"gone/{rank}", "")


def _wake_collector() -> None:
    """Lets Python collect garbage again, and look no more at what is there by now.

    See `__init__.py` [Note: imports without the collector].
    """
    gc.freeze()
    gc.enable()


def _require_equal_ranks(store: Store, place: RankInfo, joined: Joined) -> None:
    """Raises L101 on every rank unless all bring the same code, recipe and data. All ranks must call; blocks."""
    require_equal_fingerprints(
        store,
        {
            **fingerprint(
                torch_version=torch.__version__,
                config_digest=recipe_digest(joined.resolved),
                data_digest=joined.manifest.digest,
            ),
            "rewinds": "; ".join(each.text() for each in read_detours(joined.folder)) or "none",
        },
        rank=place.rank,
        host=place.host,
        world_size=place.world_size,
        timeout_s=START_TIMEOUT_S,
    )


def _open_store(place: RankInfo) -> Store:
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
    # An agent's store outlives an attempt: keys of an earlier one must not be read. A store of our own is as new as the
    # attempt, whose number agents that joined at different times do not agree on.
    return PrefixStore(f"emberward/{place.attempt if place.is_under_agent else 'own'}", tcp)


def _build_trainer(
    joined: Joined,
    world: World,
    chosen: ChosenDevice,
    stop: StopRequest,
    enter: Enter | None,
    beside: BackgroundSaves,
    inspections: Inspections,
) -> Trainer:
    recipe, folder, manifest = joined.resolved.recipe, joined.folder, joined.manifest
    report_start(folder, MODEL, rank=world.rank)
    engine = Engine(recipe, world)
    report_start(folder, DATA, rank=world.rank)
    train, evals = open_samples(recipe, manifest)
    return Trainer(
        recipe=recipe,
        batch=joined.resolved.batch,
        engine=engine,
        train=train,
        evals=evals,
        folder=folder,
        stop=stop,
        data_digest=manifest.train_digest,
        peak_tflops=_peak_tflops(chosen.name, recipe.precision.compute),
        enter=enter,
        background=beside,
        detours=read_detours(folder),
        inspections=inspections,
    )


def _open_sinks(joined: Joined, trainer: Trainer) -> Sinks | None:
    """Where rank 0 writes the metrics of the steps after the trainer's position; None on the others."""
    if trainer.world.rank != 0:
        return None
    log, folder = joined.resolved.recipe.log, joined.folder
    return open_sinks(
        metrics=folder.metrics,
        keep_through=trainer.position.step,
        tensorboard=folder.tensorboard if log.tensorboard else None,
        wandb=log.wandb,
        wandb_name=f"{folder.name}-{folder.id}",
        prometheus_port=log.prometheus_port,
    )


def _peak_tflops(device_name: str, compute: ComputeType) -> float | None:
    """The device's peak for products in `compute`; None in float32, for which the table has none."""
    peak = None if compute is ComputeType.FP32 else peak_of(device_name)
    return None if peak is None else peak.tflops


def _write_rank_file(
    folder: RunFolder,
    place: RankInfo,
    world: World | None,
    *,
    device: str | None = None,
    held_bytes: int | None = None,
) -> None:
    """Says who this rank is: at once by its pid, again with its coordinates, again with its weights and moments."""
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
            "device": device,
            "held_bytes": held_bytes,
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
        },
    )


def _tell_peak(folder: RunFolder, rank: int, peak_bytes: int | None) -> None:
    """Adds the most memory of the device that the rank had to what it said of itself; nothing on the CPU."""
    said = read_json(folder.rank_file(rank))
    if peak_bytes is not None and said is not None:
        write_json(folder.rank_file(rank), {**said, "device_peak_bytes": peak_bytes})
