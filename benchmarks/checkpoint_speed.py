"""Save and load of one rank's tensors against torch.save and torch.load, side by side; and what proof costs.

    OMP_NUM_THREADS=1 python benchmarks/checkpoint_speed.py [MEGABYTES] [FOLDER]

Each line is the best and the median of 5 rounds that take turns, in MB/s of tensor data. Loads read from the page
cache: they compare the programs, not the disk. torch.save does not fsync by itself, so a line of it does.
"""

import hashlib
import os
import shutil
import statistics
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import torch

from emberward.checkpoint import Shard, alone, digest_of, load, save, verify

NUM_ROUNDS = 5
HIDDEN = 1024


def make_shards(num_bytes: int) -> list[Shard]:
    """Weights and two moments in the shapes of a decoder's layers: matrices with a vector each."""
    shards: list[Shard] = []
    generator = torch.Generator().manual_seed(1)
    done = 0
    while done < num_bytes:
        for name, shape in (("mlp.up", (4 * HIDDEN, HIDDEN)), ("mlp.bias", (4 * HIDDEN,))):
            tensor = torch.randn(shape, generator=generator)
            box = tuple((0, length) for length in shape)
            shards.append(Shard(name=f"{len(shards)}.{name}", global_shape=shape, box=box, tensor=tensor))
            done += tensor.nbytes
    return shards


def torch_save(shards: list[Shard], path: Path, *, fsync: bool) -> None:
    """What plain torch does."""
    with path.open("wb") as file:
        torch.save({shard.name: shard.tensor for shard in shards}, file)
        if fsync:
            file.flush()
            os.fsync(file.fileno())


def torch_load(shards: list[Shard], path: Path) -> None:
    """Loads by memory map and copies into the tensors, as ours does."""
    read = torch.load(path, mmap=True, weights_only=True)
    for shard in shards:
        shard.tensor.copy_(read[shard.name])


def row_shards(shards: list[Shard], dim: int) -> list[Shard]:
    """The second quarter of each matrix along `dim`: what a rank of 4 wants of a save of one rank."""
    wanted = []
    for shard in shards:
        if len(shard.global_shape) < 2:
            continue
        length = shard.global_shape[dim]
        box = list(shard.box)
        box[dim] = (length // 4, length // 2)
        shape = [stop - start for start, stop in box]
        wanted.append(
            Shard(name=shard.name, global_shape=shard.global_shape, box=tuple(box), tensor=torch.empty(shape))
        )
    return wanted


def save_ours(shards: list[Shard], shelf: Path) -> None:
    """A save of its own step, so that none is replaced."""
    shutil.rmtree(shelf, ignore_errors=True)
    save(shelf, step=1, shards=shards, meta={}, rank=0, world_size=1, agree=alone)


def main(num_megabytes: int, folder: Path) -> None:
    """Prints one line for each way."""
    shards = make_shards(num_megabytes * 1_000_000)
    num_bytes = sum(shard.tensor.nbytes for shard in shards)
    shelf, plain = folder / "checkpoints", folder / "plain.pt"
    whole = shelf / "step-00000001"
    rows, columns = row_shards(shards, 0), row_shards(shards, 1)
    raw = [shard.tensor.view(torch.uint8).numpy().reshape(-1).data for shard in shards]
    ways: dict[str, tuple[int, Callable[[], object]]] = {
        "save  emberward (crc, digest, fsync)": (num_bytes, lambda: save_ours(shards, shelf)),
        "save  torch.save": (num_bytes, lambda: torch_save(shards, plain, fsync=False)),
        "save  torch.save + fsync": (num_bytes, lambda: torch_save(shards, plain, fsync=True)),
        "load  emberward, same boxes": (num_bytes, lambda: load(whole, shards)),
        "load  torch.load(mmap) + copy": (num_bytes, lambda: torch_load(shards, plain)),
        "load  emberward, a quarter by rows": (num_bytes // 4, lambda: load(whole, rows)),
        "load  emberward, a quarter by columns": (num_bytes // 4, lambda: load(whole, columns)),
        "verify": (num_bytes, lambda: verify(whole)),
        "digest": (num_bytes, lambda: digest_of(shards)),
        "crc32": (num_bytes, lambda: [zlib.crc32(data) for data in raw]),
        "sha256": (num_bytes, lambda: [hashlib.sha256(data).digest() for data in raw]),
        "blake2b": (num_bytes, lambda: [hashlib.blake2b(data).digest() for data in raw]),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(NUM_ROUNDS):
        for name, (_, way) in ways.items():
            start_s = time.perf_counter()
            way()
            seconds[name].append(time.perf_counter() - start_s)
    for name, (way_bytes, _) in ways.items():
        best, middle = (way_bytes / s / 1e6 for s in (min(seconds[name]), statistics.median(seconds[name])))
        sys.stdout.write(f"{name:40} best {best:6.0f} MB/s   median {middle:6.0f} MB/s\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as name:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 256, Path(name))
