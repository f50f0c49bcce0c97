"""Language model over syllables with tied in- and output table. The table's rows are split over two ranks."""

import statistics
import time

import torch
import torch.distributed as dist
from torch import nn

from table import Table

ROWS, DIM, LENGTH, BATCH = 12000, 256, 16, 4


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = Table(ROWS, DIM)
        self.rnn = nn.GRU(DIM, DIM, batch_first=True)

    def forward(self, ids):
        table = self.table.full()
        hidden, _ = self.rnn(nn.functional.embedding(ids, table))
        return hidden @ table.t()


def sum_dense(module, world):
    for p in module.rnn.parameters():
        dist.all_reduce(p.grad)
        p.grad /= world


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    seconds = []
    for step in range(80):
        t0 = time.perf_counter()
        rng = torch.Generator().manual_seed(step * world + rank)
        start = torch.randint(0, ROWS, (BATCH, 1), generator=rng)
        ids = (start + 3 * torch.arange(LENGTH + 1)) % ROWS
        loss = nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        sum_dense(model, world)
        optimizer.step()
        seconds.append(time.perf_counter() - t0)
    if rank == 0:
        print(f"loss {loss.item():.3f}")
        print(f"{1e3 * statistics.median(seconds):.2f} ms/step median, {1e3 * statistics.mean(seconds):.2f} ms/step")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
