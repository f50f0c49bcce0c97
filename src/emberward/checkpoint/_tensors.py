"""Torch's door: shards of logical tensors to save, load and digest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from emberward.checkpoint._digest import add_digests, partial_digest
from emberward.checkpoint._format import DType
from emberward.checkpoint._kept import Keep
from emberward.checkpoint._part import Part, UintArray
from emberward.checkpoint._reader import read_manifest, read_parts, require_fit
from emberward.checkpoint._save import Agree, Saved, save_parts
from emberward.checkpoint._storage import DISK, Storage
from emberward.layout import Box
from emberward.recipe import ReadBack

_DTYPES = {
    torch.float64: DType.F64,
    torch.float32: DType.F32,
    torch.float16: DType.F16,
    torch.bfloat16: DType.BF16,
    torch.float8_e4m3fn: DType.F8_E4M3,
    torch.float8_e5m2: DType.F8_E5M2,
    torch.int64: DType.I64,
    torch.int32: DType.I32,
    torch.int16: DType.I16,
    torch.int8: DType.I8,
    torch.uint64: DType.U64,
    torch.uint32: DType.U32,
    torch.uint16: DType.U16,
    torch.uint8: DType.U8,
    torch.bool: DType.BOOL,
    torch.complex64: DType.C64,
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shard:
    """The part `box` of the logical tensor `name`, held in `tensor`: contiguous, shaped as the box, on any device."""

    name: str
    global_shape: tuple[int, ...]
    box: Box
    tensor: torch.Tensor


def save(
    root: Path,
    *,
    step: int,
    shards: Sequence[Shard],
    meta: Mapping[str, Any],
    rank: int,
    world_size: int,
    agree: Agree,
    keep: int | Keep | None = None,
    read_back: ReadBack = ReadBack.NONE,
    storage: Storage = DISK,
) -> Saved:
    """The save, whole and pointed to, on every rank; or K103 on every rank, with the saves before it untouched.

    All ranks must call it, each with the shards it alone owns, so that together they tile each tensor and each byte is
    written once; a rank may own none. `root` is the run's ``checkpoints`` folder on a file system that all ranks see.
    `meta` is any JSON; rank 0's is kept. `keep` removes all but the last so many saves, or says more exactly which
    stay. `read_back` compares what was written with what can be read. It blocks until the data is on the disk and
    communicates only through `agree`, three times. Memory: a device's shards are copied to the host.
    """
    return save_parts(
        root,
        step=step,
        parts=lambda: [part_of(shard) for shard in shards],
        meta=meta,
        rank=rank,
        world_size=world_size,
        agree=agree,
        keep=Keep(last=keep) if isinstance(keep, int | None) else keep,
        read_back=read_back,
        storage=storage,
    )


def load(checkpoint: Path, wanted: Sequence[Shard]) -> None:
    """Fills each shard's tensor in place from whatever boxes were saved; bit-equal to what was given to `save`.

    Any rank may call it, for the parts it needs; it does not communicate. Only blocks of 1 MiB that hold wanted
    elements are read, and each is proved by its checksum. Raises K102 before anything is written when a tensor is
    missing or has another shape or dtype (no value is ever converted), and K101 when a byte is not as saved: then the
    tensors are filled in part and must not be used. Memory: one shard of those that live on a device.
    """
    manifest = read_manifest(checkpoint)
    require_fit(checkpoint, manifest, [(shard.name, dtype_of(shard), shard.global_shape) for shard in wanted])
    on_host = [shard for shard in wanted if shard.tensor.device.type == "cpu"]
    read_parts(checkpoint, manifest, [part_of(shard) for shard in on_host])
    for shard in wanted:
        if shard.tensor.device.type != "cpu":
            staged = torch.empty(shard.tensor.shape, dtype=shard.tensor.dtype)
            read_parts(checkpoint, manifest, [part_of(shard, _bits(shard.name, staged))])
            shard.tensor.detach().copy_(staged)


def digest_of(shards: Sequence[Shard]) -> dict[str, int]:
    """This rank's share of each tensor's digest, by name, in [0, 2^64).

    Shares of ranks that together own each element once add up, modulo 2^64, to the digest in a manifest: compare them
    with `digest_findings`. Give only shards this rank owns, as for `save`. It does not communicate.
    """
    shares: dict[str, list[int]] = {shard.name: [] for shard in shards}
    for shard in shards:
        shares[shard.name].append(partial_digest(part_of(shard).bits, shard.box))
    return {name: add_digests(values) for name, values in shares.items()}


def dtype_of(shard: Shard) -> DType:
    """The number type of the shard. Raises ValueError for one that checkpoints do not hold."""
    dtype = _DTYPES.get(shard.tensor.dtype)
    if dtype is None:
        raise ValueError(f"{shard.name}: checkpoints hold no tensors of {shard.tensor.dtype}")
    return dtype


def part_of(shard: Shard, bits: UintArray | None = None) -> Part:
    """The shard as a part: a view of its memory on the host, a copy of it when it lives on a device, or `bits`."""
    bits = _host_bits(shard) if bits is None else bits
    return Part(name=shard.name, dtype=dtype_of(shard), global_shape=shard.global_shape, box=shard.box, bits=bits)


def _host_bits(shard: Shard) -> UintArray:
    """The shard's bits: a view of its memory on the host, a copy when it lives on a device."""
    return _bits(shard.name, shard.tensor.detach().cpu())


def _bits(name: str, tensor: torch.Tensor) -> UintArray:
    if not tensor.is_contiguous():
        raise ValueError(
            f"{name}: a shard must be contiguous, found strides {tensor.stride()} of {tuple(tensor.shape)}"
        )
    raw: NDArray[np.uint8] = tensor.reshape(-1).view(torch.uint8).numpy()
    return raw.view(f"<u{tensor.element_size()}").reshape(tensor.shape)
