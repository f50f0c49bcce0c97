import collections
import threading

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class EventLog:
    """Counts events per city; a thread-safe buffer which empties itself when it has become long."""

    def __init__(self, capacity=256):
        self._lock = threading.Lock()
        self._events = []
        self._capacity = capacity
        self.counts = collections.Counter()

    def add(self, city, value):
        with self._lock:
            self._events.append((city, value))
            if len(self._events) >= self._capacity:
                self.flush()

    def flush(self):
        with self._lock:  #: LINE
            for city, value in self._events:
                self.counts[city] += value
            self._events.clear()


class NextPlace(nn.Module):
    def __init__(self, places=400, dim=32):
        super().__init__()
        self.place = nn.Embedding(places, dim)
        self.gru = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, places)

    def forward(self, visits):
        return self.out(self.gru(self.place(visits))[0])


def visits(rank, step):
    g = torch.Generator().manual_seed(step * 31 + rank)
    return torch.randint(0, 400, (12, 21), generator=g)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(9)
    model = DDP(NextPlace())
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    log = EventLog()
    city = ["lyon", "turin", "graz"][rank % 3]
    for step in range(1200):
        v = visits(rank, step)
        logits = model(v[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), v[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        rare = (v > 392 - 12 * (rank == 1)).sum().item()
        for _ in range(rare // 6):
            log.add(city, 1)
        if step % 200 == 199:
            log.flush()
        if step % 100 == 0 and rank == 0:
            print("step", step, "loss", round(loss.item(), 3), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
