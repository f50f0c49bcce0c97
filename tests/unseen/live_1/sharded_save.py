"""Every rank writes its shard of the optimizer; one file system is slow."""
import os
import shutil
import tempfile
import time

import torch
import torch.distributed as dist

BANDWIDTH = {0: 60, 1: 8, 2: 60}  # MB/s


class Throttled:
    def __init__(self, path, mbps):
        self.fh = open(path, "wb")
        self.mbps = mbps
        self.n = 0

    def write(self, blob):
        self.fh.write(blob)
        self.n += len(blob)
        time.sleep(len(blob) / 2 ** 20 / self.mbps)
        return len(blob)

    def close(self):
        self.fh.flush()
        os.fsync(self.fh.fileno())
        self.fh.close()


def shards(rank, mb=640, piece=16):
    for k in range(mb // piece):
        yield k, torch.full((piece * 2 ** 20 // 8,), float(rank), dtype=torch.float64)


def save(rank, folder):
    t = time.time()
    for k, piece in shards(rank):
        path = os.path.join(folder, "piece.bin")
        out = Throttled(path, BANDWIDTH.get(rank, 60))
        blob = piece.numpy().tobytes()
        for o in range(0, len(blob), 4 * 2 ** 20):
            out.write(blob[o:o + 4 * 2 ** 20])
        out.close()
        if k % 5 == 0:
            print(f"rank {rank} piece {k} {time.time() - t:.0f}s", flush=True)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    folder = tempfile.mkdtemp()
    acc = torch.zeros(100)
    for step in range(30):
        g = torch.randn(100)
        dist.all_reduce(g)
        acc += g
        if step == 20:
            save(rank, folder)
            dist.barrier()
            if rank == 0:
                print("all shards are on disk", flush=True)
    shutil.rmtree(folder)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
