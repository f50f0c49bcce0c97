"""Keeps a per-rank journal of inputs so that runs can be replayed."""
import os
import tempfile
import time

import torch
import torch.distributed as dist


class Journal:
    """append only; `depth` entries are kept in memory before they go to disk"""

    def __init__(self, depth, slow_media=False):
        self.fd = os.open(tempfile.mktemp(suffix=".journal"), os.O_CREAT | os.O_WRONLY)
        self.depth = depth
        self.pending = []
        self.slow_media = slow_media

    def add(self, tensor):
        self.pending.append(tensor.numpy().tobytes())
        if len(self.pending) >= self.depth:
            self.commit()

    def commit(self):
        for blob in self.pending:
            os.write(self.fd, blob)
            os.fsync(self.fd)
            if self.slow_media:
                time.sleep(0.2)  #: LINE
        self.pending.clear()


def media_of(rank):
    return {"slow_media": rank == 1}


class Loop:
    def __init__(self):
        self.rank = dist.get_rank()
        self.world = dist.get_world_size()
        self.journal = Journal(12, **media_of(self.rank))
        torch.manual_seed(0)
        self.net = torch.nn.Linear(64, 64)

    def step(self, k):
        x = torch.randn(32, 64)
        self.journal.add(x)
        self.net(x).pow(2).mean().backward()
        for p in self.net.parameters():
            dist.all_reduce(p.grad)
            with torch.no_grad():
                p -= 0.01 * p.grad / self.world
            p.grad = None
        time.sleep(0.05)

    def run(self, n):
        last = time.time()
        for k in range(n):
            self.step(k)
            if self.rank == 0 and k % 6 == 5:
                print(f"{k + 1:4d} {time.time() - last:6.2f} s for 6 steps", flush=True)
                last = time.time()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    Loop().run(132)
    dist.destroy_process_group()
