"""A language model on three ranks: texts of different lengths, batches of equal work."""
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from budget import Board, batches

STEPS = 60


class Layers(torch.autograd.Function):
    """The kernels of the layers: waits by the tokens."""

    @staticmethod
    def forward(ctx, x, tokens):
        ctx.tokens = tokens
        time.sleep(tokens * 0.00004)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        time.sleep(ctx.tokens * 0.00008)
        return grad, None


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(32, 64)
        self.head = nn.Linear(64, 32)

    def forward(self, x, tokens):
        return self.head(Layers.apply(self.embed(x), tokens))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(rank)
    board = Board()
    times, last = [], time.perf_counter()
    for step, lengths in enumerate(batches(rank, STEPS, budget=480)):
        x = torch.randn(len(lengths), 32, generator=generator)
        loss = model(x, sum(lengths)).square().mean()  #: LINE
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            board.write(step, loss)
        now = time.perf_counter()
        times.append((now - last) * 1000)
        last = now
    if rank == 0:
        print(board.rows[-1])
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
