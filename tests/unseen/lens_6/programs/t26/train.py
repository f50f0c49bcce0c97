"""Questions and answers by two towers that share one sharded table of embeddings (two ranks)."""
import statistics
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from kernels import Tower
from sharded import ShardedTable

STEPS = 60
ROWS = 18_000
WIDTH = 64


class TwoTowers(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = ShardedTable(ROWS, WIDTH)
        self.ask, self.answer = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, questions, answers):
        q = self.ask(Tower.apply(F.embedding(questions, self.table.full()).mean(1)))
        a = self.answer(Tower.apply(F.embedding(answers, self.table.full()).mean(1)))  #: LINE
        return q @ a.T


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = TwoTowers()
    towers = [p for name, p in model.named_parameters() if not name.startswith("table")]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(rank)
    times, last = [], time.perf_counter()
    for step in range(STEPS):
        questions = torch.randint(0, ROWS, (32, 12), generator=generator)
        answers = torch.randint(0, ROWS, (32, 24), generator=generator)
        loss = F.cross_entropy(model(questions, answers), torch.arange(32))
        optimizer.zero_grad()
        loss.backward()
        flat = torch.cat([p.grad.reshape(-1) for p in towers])
        dist.all_reduce(flat)
        for p, grad in zip(towers, flat.split([p.numel() for p in towers])):
            p.grad.copy_(grad.view_as(p))
        optimizer.step()
        now = time.perf_counter()
        times.append((now - last) * 1000)
        last = now
    if rank == 0:
        print(f"loss {loss.item():.4f}")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
