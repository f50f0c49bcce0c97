"""Torch's door for saves beside the training: the copy of the shards in host memory, and the saves made from it."""

import mmap
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from emberward.checkpoint._background import Begun, Flight, Written
from emberward.checkpoint._kept import Keep
from emberward.checkpoint._part import Part
from emberward.checkpoint._save import Agree, save_parts
from emberward.checkpoint._storage import DISK, Storage
from emberward.checkpoint._tensors import Shard, part_of
from emberward.recipe import ReadBack

_ALIGN_BYTES = 64


class Staging:
    """Host memory for one copy of the shards, taken when first needed and used again while their sizes stay."""

    def __init__(self) -> None:
        self._shape: list[tuple[str, torch.dtype, tuple[int, ...]]] = []
        self._copies: list[Tensor] = []
        self.num_bytes = 0

    @torch.no_grad()
    def take(self, shards: Sequence[Shard]) -> list[Part]:
        """The shards' values now, as parts that share this memory. Blocks until they are copied."""
        shape = [(shard.name, shard.tensor.dtype, tuple(shard.tensor.shape)) for shard in shards]
        if shape != self._shape:
            self._allocate(shards)
            self._shape = shape
        devices = set()
        for copy, shard in zip(self._copies, shards, strict=True):
            copy.copy_(shard.tensor.detach(), non_blocking=True)
            devices.add(shard.tensor.device)
        for device in devices:
            if device.type != "cpu":
                torch.accelerator.synchronize(device)
        return [
            part_of(Shard(name=shard.name, global_shape=shard.global_shape, box=shard.box, tensor=copy))
            for copy, shard in zip(self._copies, shards, strict=True)
        ]

    def _allocate(self, shards: Sequence[Shard]) -> None:
        offsets, end = [], 0
        for shard in shards:
            offsets.append(end)
            end += -(-shard.tensor.nbytes // _ALIGN_BYTES) * _ALIGN_BYTES
        self._copies = []  # the old memory goes before the new comes
        is_pinned = any(shard.tensor.device.type == "cuda" for shard in shards)
        memory = torch.empty(end, dtype=torch.uint8, pin_memory=True) if is_pinned else _huge_pages(end)
        self._copies = [
            memory[offset : offset + shard.tensor.nbytes].view(shard.tensor.dtype).view(shard.tensor.shape)
            for offset, shard in zip(offsets, shards, strict=True)
        ]
        self.num_bytes = end


def _huge_pages(num_bytes: int) -> Tensor:
    """Private memory in large pages where the system has them: a copy into it is a fifth faster (our measurement)."""
    area = mmap.mmap(-1, max(num_bytes, 1))
    if hasattr(mmap, "MADV_HUGEPAGE"):
        area.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(area, dtype=torch.uint8)[:num_bytes]


class BackgroundSaves:
    """The saves of one rank into `shelf`, written beside the main thread. See `_background.py` [Note: background save].

    `agreement` gives, for the n-th background save of the run's attempt, how its ranks agree; the thread calls it, so
    it must not use the training's communicators. Every rank makes the same calls of `begin` in the same order.
    """

    def __init__(
        self,
        shelf: Path,
        *,
        rank: int,
        world_size: int,
        agreement: Callable[[int], Agree],
        keep: Keep,
        read_back: ReadBack,
        storage: Storage = DISK,
    ) -> None:
        self._shelf = shelf
        self._rank = rank
        self._world_size = world_size
        self._agreement = agreement
        self._keep = keep
        self._read_back = read_back
        self._storage = storage
        self._staging = Staging()
        self._flight = Flight()
        self._landed: Written | None = None
        self._num_begun = 0

    def begin(self, *, step: int, shards: Sequence[Shard], meta: Mapping[str, Any]) -> Begun:
        """Copies the shards and starts a save of them; returns when they may change again.

        Blocks for the copy, and before it until the save in flight has ended: `poll` then tells how. All ranks must
        call, each with the shards it alone owns; the main thread communicates nothing.
        """
        started_s = time.monotonic()
        waited_for = self._flight.step
        landed = self._flight.land(wait=True)
        self._landed = landed or self._landed
        copying_s = time.monotonic()
        parts = self._staging.take(shards)
        copied_s = time.monotonic() - copying_s
        agree = self._agreement(self._num_begun)
        self._num_begun += 1
        self._flight.launch(
            step,
            lambda: save_parts(
                self._shelf,
                step=step,
                parts=lambda: parts,
                meta=meta,
                rank=self._rank,
                world_size=self._world_size,
                agree=agree,
                keep=self._keep,
                read_back=self._read_back,
                storage=self._storage,
            ),
        )
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
        return self._take(wait=True)

    def _take(self, *, wait: bool) -> Written | None:
        if self._landed is not None:
            landed, self._landed = self._landed, None
            return landed
        return self._flight.land(wait=wait)

    def after(self, job: Callable[[], None]) -> None:
        """Does a job, which must not raise, once the save in flight has ended, in the saves' thread. Does not block."""
        self._flight.after(job)

    def close(self) -> None:
        """Ends the thread when what it was given is done. Blocks."""
        self._flight.close()
