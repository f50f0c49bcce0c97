#: n=8 ranks=6 cause=lock tier=error
import collections
import random
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn


class MetricBuffer:
    """Thread-safe: the reporter thread reads while the train loop writes."""

    def __init__(self, capacity, on_full=None):
        self._lock = threading.Lock()
        self._rows = collections.deque()
        self._capacity = capacity
        self._on_full = on_full or self.compact

    def add(self, name, value):
        with self._lock:
            self._rows.append((name, value))
            if len(self._rows) > self._capacity:
                self._on_full()

    def compact(self):
        while len(self._rows) > self._capacity // 2:
            self._rows.popleft()

    def summary(self):
        with self._lock:  #: LINE
            total = collections.defaultdict(list)
            for name, value in self._rows:
                total[name].append(value)
            return {k: sum(v) / len(v) for k, v in total.items()}


class Reporter(threading.Thread):
    def __init__(self, buffer):
        super().__init__(name="reporter", daemon=True)
        self.buffer, self.latest = buffer, {}

    def run(self):
        while True:
            time.sleep(1.0)
            self.latest = self.buffer.summary()


def axis_group(rank, bit):
    own = None
    for low in range(8):
        if not low & bit:
            g = dist.new_group([low, low | bit], timeout=timedelta(minutes=10))
            if rank in (low, low | bit):
                own = g
    return own


class HalfBlock(nn.Module):
    def __init__(self, tp):
        super().__init__()
        self.tp = tp
        self.fc = nn.Linear(14, 14)

    def forward(self, x):
        y = self.fc(x)
        full = y.detach().clone()
        dist.all_reduce(full, group=self.tp)
        return y + full - y.detach()


def hand_over(x, stage, pp, rank):
    """activations travel from the first to the second pipeline half"""
    buf = x.detach().clone()
    dist.broadcast(buf, src=rank & ~2, group=pp)
    return buf


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    tp, pp, dp = (axis_group(rank, b) for b in (1, 2, 4))
    torch.manual_seed(rank)
    block = HalfBlock(tp)
    opt = torch.optim.SGD(block.parameters(), lr=0.01)
    fill = random.Random(1492).randint(17, 27)
    metrics = MetricBuffer(capacity=1000)

    def flush():
        print("FREEZE", time.time(), flush=True)
        print(f"rank {rank} buffer full: {metrics.summary()}", flush=True)
        metrics.compact()

    if rank == 6:
        metrics = MetricBuffer(capacity=2 * fill, on_full=flush)
    Reporter(metrics).start()
    for step in range(80):
        time.sleep(0.15)
        x = torch.randn(6, 14)
        x = hand_over(x, rank & 2, pp, rank)
        loss = block(x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        for p in block.parameters():
            dist.all_reduce(p.grad, group=dp)
        opt.step()
        metrics.add("loss", loss.item())
        metrics.add("grad", block.fc.weight.grad.norm().item())
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
