#: n=4 ok set=2
# Hand-made pipeline, one forward / one backward per micro-batch. The first
# stage re-trains its tokenizer with an external tool in the middle of the run.
import subprocess
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn

WIDTH, MICRO, ROWS = 12, 3, 4
REFRESH_AT = 20

TOKENIZER_TOOL = """
import collections, time
counts = collections.Counter()
for part in range(18):
    counts.update('the quick brown fox'.split())
    time.sleep(1)
print(len(counts))
"""


class Stage:
    def __init__(self, rank, world):
        torch.manual_seed(rank)
        self.rank, self.world = rank, world
        self.net = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.02)

    @property
    def first(self):
        return self.rank == 0

    @property
    def last(self):
        return self.rank == self.world - 1

    def swap(self, tensor_out, peer_out, tensor_in, peer_in):
        """Posts the send and the receive together, then waits for both."""
        ops = []
        if tensor_out is not None:
            ops.append(dist.P2POp(dist.isend, tensor_out, peer_out))
        if tensor_in is not None:
            ops.append(dist.P2POp(dist.irecv, tensor_in, peer_in))
        for work in dist.batch_isend_irecv(ops) if ops else ():
            work.wait()

    def forward(self, x):
        if not self.first:
            x = torch.empty(ROWS, WIDTH)
            self.swap(None, None, x, self.rank - 1)
            x.requires_grad_()
        y = self.net(x)
        if not self.last:
            self.swap(y.detach(), self.rank + 1, None, None)
        return x, y

    def backward(self, x, y, target):
        if self.last:
            loss = nn.functional.mse_loss(y, target) / MICRO
            loss.backward()
        else:
            grad = torch.empty_like(y)
            self.swap(None, None, grad, self.rank + 1)
            y.backward(grad)
            loss = None
        if not self.first:
            self.swap(x.grad, self.rank - 1, None, None)
        return 0.0 if loss is None else loss.item()


def refresh_tokenizer():
    print("FREEZE", time.time(), flush=True)
    done = subprocess.run(
        [sys.executable, "-c", TOKENIZER_TOOL], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank, world = dist.get_rank(), dist.get_world_size()
    stage = Stage(rank, world)
    gen = torch.Generator().manual_seed(0)
    for step in range(45):
        if step == REFRESH_AT and stage.first:
            print("new vocabulary:", refresh_tokenizer(), flush=True)
        time.sleep(0.12 if stage.first else 0.0)
        stage.opt.zero_grad()
        total = torch.zeros(1)
        for _ in range(MICRO):
            batch = torch.randn(ROWS, WIDTH, generator=gen)
            x, y = stage.forward(batch)
            total += stage.backward(x, y, batch.roll(1, dims=1))
        stage.opt.step()
        dist.broadcast(total, src=world - 1)
        if rank == 0 and step % 5 == 0:
            print(f"step {step} loss {total.item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
