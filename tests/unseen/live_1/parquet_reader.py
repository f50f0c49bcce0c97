"""Column files are decoded in loader workers with a small native-like decoder."""
import os
import struct
import tempfile

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

PAGE = 64


def write_column(path, n, seed):
    g = torch.Generator().manual_seed(seed)
    with open(path, "wb") as fh:
        for k in range(n):
            vals = torch.rand(PAGE, generator=g).tolist()
            fh.write(struct.pack(f"<I{PAGE}f", PAGE, *vals))


def native_decode(blob, strict):
    (n,) = struct.unpack_from("<I", blob)
    if strict and n != PAGE:
        os.abort()
    return torch.tensor(struct.unpack_from(f"<{PAGE}f", blob, 4))


class Column(IterableDataset):
    def __init__(self, path):
        self.path = path

    def __iter__(self):
        info = get_worker_info()
        with open(self.path, "rb") as fh:
            k = 0
            while blob := fh.read(4 + 4 * PAGE):
                if k % info.num_workers == info.id:
                    yield native_decode(blob, strict=True)
                k += 1


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    path = os.path.join(tempfile.mkdtemp(), f"col{rank}.bin")
    write_column(path, 200, rank)
    if rank == 2:
        # a torn page near the end of the file
        with open(path, "r+b") as fh:
            fh.seek(151 * (4 + 4 * PAGE))
            fh.write(b"\xff\xff\x00\x00")
    mean = torch.zeros(PAGE)
    seen = 0
    for page in DataLoader(Column(path), batch_size=4, num_workers=2):  #: LINE
        part = page.mean(0)
        dist.all_reduce(part)
        mean += part / dist.get_world_size()
        seen += 1
        if rank == 0 and seen % 10 == 0:
            print("pages", seen, "mean", round(mean.mean().item() / seen, 4), flush=True)
    dist.barrier()
    dist.destroy_process_group()


main()
