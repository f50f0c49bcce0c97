#: n=4 ranks=* cause=cycle_credit tier=error set=3
"""Ranks trade hard samples around a ring; a shipper thread empties a bounded outbox."""
import queue
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn

DIM, OUTBOX = 6, 4


class Shipper(threading.Thread):
    def __init__(self, outbox, dst, group):
        super().__init__(daemon=True, name="shipper")
        self.outbox, self.dst, self.group = outbox, dst, group

    def run(self):
        while True:
            sample = self.outbox.get()
            if sample is None:
                return
            dist.send(sample, self.dst, group=self.group)


class Trade:
    def __init__(self, rank, world):
        self.rank = rank
        self.prev = (rank - 1) % world
        self.group = dist.new_group(list(range(world)))
        self.outbox = queue.Queue(maxsize=OUTBOX)
        self.shipper = Shipper(self.outbox, (rank + 1) % world, self.group)
        self.shipper.start()

    def swap(self, samples):
        """Hand over samples, get as many from the previous rank."""
        for s in samples:
            self.outbox.put(s.contiguous())
        got = torch.empty(len(samples), DIM)
        for row in got:
            dist.recv(row, self.prev, group=self.group)
        return got

    def close(self):
        self.outbox.put(None)
        self.shipper.join()


class Schedule:
    """How many samples are traded: few at first, more once training is stable."""

    def __init__(self, small=2, large=12, switch=20):
        self.small, self.large, self.switch = small, large, switch

    def count(self, step):
        return self.small if step < self.switch else self.large


def pick_hard(x, per_row, n):
    return x[per_row.topk(n).indices]


def train():
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(DIM, 8), nn.ReLU(), nn.Linear(8, DIM))
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    gen = torch.Generator().manual_seed(rank)
    trade, plan = Trade(rank, world), Schedule()
    for step in range(60):
        time.sleep(0.15)
        x = torch.randn(16, DIM, generator=gen)
        per_row = (net(x) - x).pow(2).mean(-1)
        n = plan.count(step)
        if rank == 0 and step == plan.switch:
            print("FREEZE", time.time(), flush=True)
        extra = trade.swap(pick_hard(x, per_row.detach(), n))
        loss = per_row.mean() + (net(extra) - extra).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        for p in net.parameters():
            dist.all_reduce(p.grad)
        opt.step()
        if rank == 0 and step % 5 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    trade.close()


if __name__ == "__main__":
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    train()
    dist.destroy_process_group()
