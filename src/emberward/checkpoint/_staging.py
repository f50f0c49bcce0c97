"""Torch's door for saves beside the training: the copy of the shards in host memory, and the saves made from it."""

import mmap
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from emberward.checkpoint._background import Begun, Flight, Jobs, Written
from emberward.checkpoint._beside import NotStarted, WriterProcess, writer_command
from emberward.checkpoint._kept import Keep
from emberward.checkpoint._memory import ALIGN_BYTES, SharedMemory, own_memory, shared_memory
from emberward.checkpoint._part import Part
from emberward.checkpoint._pinned import PinnedMemory
from emberward.checkpoint._save import Agree, Saved, save_parts
from emberward.checkpoint._save_job import Placed, SaveJob
from emberward.checkpoint._storage import DISK, Storage
from emberward.checkpoint._tensors import Shard, dtype_of
from emberward.findings import Cause, Certainty, EmberwardError, Finding, Kind, Severity
from emberward.recipe import ReadBack

FIRST_PATIENCE_S = 10.0
MAX_PATIENCE_S = 30.0
"""How long idle processors may take over a save: half of the time between saves, at most so long."""
SMALL_BYTES = 4 << 20
"""Below this a save costs the training a few milliseconds: nobody is asked to be patient."""


class Staging:
    """Host memory for one copy of the shards, taken when first needed and used again while their sizes stay.

    With `shared` another process can map it. On CUDA it is pinned, either way.
    """

    def __init__(self, shared: SharedMemory | None) -> None:
        self._shared = shared
        self._shape: list[tuple[str, torch.dtype, tuple[int, ...]]] = []
        self._copies: list[Tensor] = []
        self._offsets: list[int] = []
        self._area: mmap.mmap | None = None
        self._pinned: PinnedMemory | None = None
        self.num_bytes = 0

    @torch.no_grad()
    def take(self, shards: Sequence[Shard]) -> tuple[Placed, ...]:
        """Copies the shards' values as they are now; where each lies. Blocks. Raises OSError without memory for it."""
        shape = [(shard.name, shard.tensor.dtype, tuple(shard.tensor.shape)) for shard in shards]
        if shape != self._shape:
            self._shape = []
            self._allocate(shards)
            self._shape = shape
        devices = set()
        for copy, shard in zip(self._copies, shards, strict=True):
            copy.copy_(shard.tensor.detach(), non_blocking=True)
            devices.add(shard.tensor.device)
        for device in devices:
            if device.type != "cpu":
                torch.accelerator.synchronize(device)
        return tuple(
            Placed(name=s.name, dtype=dtype_of(s), global_shape=s.global_shape, box=s.box, offset=offset)
            for s, offset in zip(shards, self._offsets, strict=True)
        )

    def parts(self, placed: Sequence[Placed]) -> list[Part]:
        """The parts in this process's own view of the memory."""
        memory = np.frombuffer(self._area, dtype=np.uint8) if self._area is not None else np.empty(0, dtype=np.uint8)
        return [each.part(memory) for each in placed]

    def _allocate(self, shards: Sequence[Shard]) -> None:
        self._offsets, end = [], 0
        for shard in shards:
            self._offsets.append(end)
            end += -(-shard.tensor.nbytes // ALIGN_BYTES) * ALIGN_BYTES
        if self._pinned is not None:
            self._pinned.release()
        self._copies, self._area, self._pinned = [], None, None  # the old memory goes before the new comes
        self.num_bytes = 0
        self._area = own_memory(end) if self._shared is None else self._shared.take(end)
        memory = torch.frombuffer(self._area, dtype=torch.uint8)
        if any(shard.tensor.device.type == "cuda" for shard in shards):
            self._pinned = PinnedMemory(memory)
        self._copies = [
            memory[offset : offset + shard.tensor.nbytes].view(shard.tensor.dtype).view(shard.tensor.shape)
            for offset, shard in zip(self._offsets, shards, strict=True)
        ]
        self.num_bytes = end


class BackgroundSaves:
    """The saves of one rank into `root`, written beside the main thread. See `_background.py` [Note: background save].

    `agreement` gives, for the n-th background save of the run's attempt, how its ranks agree; a thread calls it, so
    it must not use the training's communicators. Every rank makes the same calls of `begin` in the same order.
    `jobs` does the saves, and what comes `after` them, one by one beside the caller: a lane that no other rank uses.
    A process of its own writes, started by `command` with the first save (`_writing.py` [Note: writer process]); where
    the system has none of its memory, or the file system is not the machine's (`storage`), that thread does. Idle
    processors may take half of the time between saves over one, at most `max_patience_s`.
    """

    def __init__(
        self,
        root: Path,
        *,
        rank: int,
        world_size: int,
        agreement: Callable[[int], Agree],
        jobs: Jobs,
        keep: Keep,
        read_back: ReadBack,
        storage: Storage = DISK,
        command: Sequence[str] | None = None,
        max_patience_s: float = MAX_PATIENCE_S,
    ) -> None:
        self._root = root
        self._rank = rank
        self._world_size = world_size
        self._agreement = agreement
        self._keep = keep
        self._read_back = read_back
        self._storage = storage
        self._max_patience_s = max_patience_s
        self._memory = shared_memory() if storage is DISK else None
        self._process = None if self._memory is None else WriterProcess(self._memory, command or writer_command())
        self._staging = Staging(self._memory)
        self._flight = Flight(jobs)
        self._landed: Written | None = None
        self._num_begun = 0
        self._begun_s: float | None = None

    @property
    def writer_pid(self) -> int | None:
        """The process that writes; None while there is none."""
        return None if self._process is None else self._process.pid

    def begin(self, *, step: int, shards: Sequence[Shard], meta: Mapping[str, Any]) -> Begun:
        """Copies the shards and starts a save of them; returns when they may change again.

        Blocks for the copy, and before it until the save in flight has ended: `poll` then tells how. All ranks must
        call, each with the shards it alone owns; the main thread communicates nothing.
        """
        started_s = time.monotonic()
        waited_for = self._flight.step
        self._hurry()
        landed = self._flight.land(wait=True)
        self._landed = landed or self._landed
        copying_s = time.monotonic()
        placed: tuple[Placed, ...] = ()
        problem = None
        try:
            placed = self._staging.take(shards)
        except OSError as error:
            problem = _no_memory(error, shards, rank=self._rank, step=step)
        copied_s = time.monotonic() - copying_s
        save_job = SaveJob(
            root=self._root,
            step=step,
            placed=placed,
            meta=meta,
            rank=self._rank,
            world_size=self._world_size,
            keep=self._keep,
            read_back=self._read_back,
            memory_bytes=self._staging.num_bytes,
            memory_generation=0 if self._memory is None else self._memory.generation,
            patience_s=self._patience_s(started_s),
        )
        self._begun_s = started_s
        agree = self._agreement(self._num_begun)
        self._num_begun += 1
        self._flight.launch(step, partial(self._save, save_job, agree, problem))
        return Begun(
            step=step,
            waited_for=waited_for,
            waited_s=copying_s - started_s,
            copied_s=copied_s,
            staged_bytes=self._staging.num_bytes,
        )

    def poll(self) -> Written | None:
        """How the last save ended, told once; None while it is under way. Does not block."""
        return self._take(wait=False)

    def finish(self) -> Written | None:
        """How the last save ended, told once, after it has; None when that was told already. Blocks."""
        self._hurry()
        return self._take(wait=True)

    def after(self, job: Callable[[], None]) -> None:
        """Does a job, which must not raise, once the save in flight has ended, in the saves' thread. Does not block."""
        self._flight.after(job)

    def close(self) -> None:
        """Ends the process when what it and `jobs` were given is done. Blocks."""
        self._hurry()
        self._flight.close()
        if self._process is not None:
            self._process.close()

    def _take(self, *, wait: bool) -> Written | None:
        if self._landed is not None:
            landed, self._landed = self._landed, None
            return landed
        return self._flight.land(wait=wait)

    def _hurry(self) -> None:
        if self._process is not None and self._flight.step is not None:
            self._process.hurry(self._flight.step)

    def _patience_s(self, now_s: float) -> float:
        if self._staging.num_bytes < SMALL_BYTES:
            return 0.0
        between_s = 2 * FIRST_PATIENCE_S if self._begun_s is None else now_s - self._begun_s
        return min(between_s / 2, self._max_patience_s)

    def _save(self, save_job: SaveJob, agree: Agree, problem: EmberwardError | None) -> Saved:
        """The save; in the saves' thread. Without a copy the other ranks are told that there is no save."""
        notices: tuple[Finding, ...] = ()
        if self._process is not None and problem is None:
            try:
                return self._process.save(save_job, agree)
            except NotStarted as error:
                self._process, notices = None, (_by_a_thread(error, rank=self._rank),)
        saved = save_parts(
            save_job.root,
            step=save_job.step,
            parts=partial(self._parts, save_job.placed, problem),
            meta=save_job.meta,
            rank=save_job.rank,
            world_size=save_job.world_size,
            agree=agree,
            keep=save_job.keep,
            read_back=save_job.read_back,
            storage=self._storage,
        )
        return replace(saved, notices=(*notices, *saved.notices))

    def _parts(self, placed: Sequence[Placed], problem: EmberwardError | None) -> list[Part]:
        if problem is not None:
            raise problem
        return self._staging.parts(placed)


def _no_memory(error: OSError, shards: Sequence[Shard], *, rank: int, step: int) -> EmberwardError:
    num_bytes = sum(shard.tensor.nbytes for shard in shards)
    return EmberwardError(
        f"rank {rank} has no host memory for a copy of its state",
        code="K117",
        where=f"save of step {step}",
        expected=f"{num_bytes} bytes",
        found=error.strerror or str(error),
        next="save.background=false, which needs no copy, or free memory on the host of that rank",
        cause=Cause.OUT_OF_MEMORY,
        ranks=(rank,),
    )


def _by_a_thread(error: NotStarted, *, rank: int) -> Finding:
    return Finding(
        code="K109",
        severity=Severity.NOTICE,
        kind=Kind.RESOURCE,
        cause=Cause.CHECKPOINT_IO,
        certainty=Certainty.OBSERVED,
        message=f"rank {rank} could not start the process that writes its saves, a thread does: {error}",
        culprit_ranks=(rank,),
        next="nothing is lost but processor time of the training; look at ulimit -u and at the memory of the host",
    )
