"""Save and load of one rank's tensors against torch.save and DCP, side by side; what proof costs, and what the disk.

    OMP_NUM_THREADS=1 python benchmarks/checkpoint_speed.py [--megabytes 250] [--folder DIR]

Each line is the best and the median of 5 rounds that take turns, in MB/s of tensor data, and the median of processor
seconds a GB. Loads read from the page cache: they compare the programs, not the disk. torch.save does not fsync by
itself, so a line of it does. The lines "disk" write and read the bytes without any proof, through the page cache and
past it: `fsync` is in the writes; what is read back is first dropped from the cache, or read past it.
"""

import argparse
import hashlib
import mmap
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
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

from emberward.checkpoint import Shard, alone, digest_of, load, save, verify
from emberward.checkpoint._storage import ALIGN_BYTES, Disk, write_all
from emberward.recipe import ReadBack

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from measured import Results, add_options

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


def save_ours(shards: list[Shard], root: Path, *, read_back: ReadBack = ReadBack.NONE) -> None:
    """A save of its own step, so that none is replaced."""
    shutil.rmtree(root, ignore_errors=True)
    save(root, step=1, shards=shards, meta={}, rank=0, world_size=1, agree=alone, read_back=read_back)


def disk_write(raw: list[memoryview], path: Path, *, is_direct: bool) -> None:
    """Writes the bytes and flushes them."""
    path.unlink(missing_ok=True)
    file = Disk(is_direct=is_direct).create(path)
    for data in raw:
        for begin in range(0, len(data), 1 << 20):
            write_all(file, data[begin : begin + (1 << 20)])
    file.fsync()
    file.close()


def disk_read(path: Path, *, is_direct: bool) -> None:
    """Reads the file from the disk."""
    file = os.open(path, os.O_RDONLY | (os.O_DIRECT if is_direct else 0))
    if not is_direct:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    buffer, offset = memoryview(mmap.mmap(-1, 4 << 20)), 0
    while (done := os.preadv(file, [buffer], offset)) > 0 and done % ALIGN_BYTES == 0:
        offset += done
    os.close(file)


def dcp_save(shards: list[Shard], folder: Path) -> None:
    """What torch's distributed checkpoint does, into an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    dcp.save({shard.name: shard.tensor for shard in shards}, checkpoint_id=folder)


def ways_of(shards: list[Shard], folder: Path) -> dict[str, tuple[int, Callable[[], object]]]:
    """Each way with the bytes that it moves."""
    num_bytes = sum(shard.tensor.nbytes for shard in shards)
    root, plain = folder / "checkpoints", folder / "plain.pt"
    whole, rank_file = root / "step-00000001", folder / "rank-00000.safetensors"
    rows, columns = row_shards(shards, 0), row_shards(shards, 1)
    raw = [shard.tensor.view(torch.uint8).numpy().reshape(-1).data for shard in shards]
    state = {shard.name: shard.tensor for shard in shards}
    all_of: dict[str, Callable[[], object]] = {
        "save  emberward (crc, digest, fsync)": lambda: save_ours(shards, root),
        "save  emberward, read back": lambda: save_ours(shards, root, read_back=ReadBack.FULL),
        "save  torch.save": lambda: torch_save(shards, plain, fsync=False),
        "save  torch.save + fsync": lambda: torch_save(shards, plain, fsync=True),
        "save  DCP": lambda: dcp_save(shards, folder / "dcp"),
        "load  emberward, same boxes": lambda: load(whole, shards),
        "load  torch.load(mmap) + copy": lambda: torch_load(shards, plain),
        "load  DCP": lambda: dcp.load(state, checkpoint_id=folder / "dcp"),
        "verify": lambda: verify(whole),
        "digest": lambda: digest_of(shards),
        "crc32": lambda: [zlib.crc32(data) for data in raw],
        "sha256": lambda: [hashlib.sha256(data).digest() for data in raw],
        "blake2b": lambda: [hashlib.blake2b(data).digest() for data in raw],
        "disk  write, page cache": lambda: disk_write(raw, rank_file, is_direct=False),
        "disk  read back, page cache": lambda: disk_read(rank_file, is_direct=False),
        "disk  write, past it": lambda: disk_write(raw, rank_file, is_direct=True),
        "disk  read back, past it": lambda: disk_read(rank_file, is_direct=True),
    }
    quarters: dict[str, Callable[[], object]] = {
        "load  emberward, a quarter by rows": lambda: load(whole, rows),
        "load  emberward, a quarter by columns": lambda: load(whole, columns),
    }
    return {name: (num_bytes, way) for name, way in all_of.items()} | {
        name: (num_bytes // 4, way) for name, way in quarters.items()
    }


def main() -> None:
    """Writes one line for each way, and the figures to the output."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=250)
    parser.add_argument("--folder", type=Path, default=None)
    add_options(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    shards = make_shards(options.megabytes * 1_000_000)
    taken: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        dist.init_process_group("gloo", init_method=f"file://{name}/store", rank=0, world_size=1)
        ways = ways_of(shards, Path(name))
        for _ in range(NUM_ROUNDS):
            for way, (_, run) in ways.items():
                cpu_s, start_s = time.process_time(), time.perf_counter()
                run()
                taken.setdefault(way, []).append((time.perf_counter() - start_s, time.process_time() - cpu_s))
        dist.destroy_process_group()
    figures = {}
    for way, (num_bytes, _) in ways.items():
        walls, cpus = zip(*taken[way], strict=True)
        best, middle = (num_bytes / s / 1e6 for s in (min(walls), statistics.median(walls)))
        cpu = statistics.median(cpus) / num_bytes * 1e9
        figures[way] = {"best_MB_per_s": best, "median_MB_per_s": middle, "cpu_s_per_GB": cpu}
        sys.stdout.write(f"{way:40} best {best:6.0f} MB/s   median {middle:6.0f} MB/s   {cpu:5.2f} s a GB\n")
    results = Results(
        "checkpoint_speed",
        what="one rank's tensors, one thread of torch; rounds in which all ways take turns",
        measures=["src/emberward/checkpoint"],
        settings={"megabytes": options.megabytes, "rounds": NUM_ROUNDS},
        is_fresh=options.fresh,
        folder=options.into,
    )
    for way, found in figures.items():
        results.add(way, found)
    results.summarise({"state_bytes": sum(shard.tensor.nbytes for shard in shards), "figures": figures})


if __name__ == "__main__":
    main()
