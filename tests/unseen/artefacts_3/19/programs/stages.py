"""Four pipeline stages, GPipe schedule, send and recv by hand."""
import torch
import torch.distributed as dist
import torch.nn as nn

import flightrec  # noqa: F401

DIM, MICRO = 32, 8


class Source:
    """Batches of sequences; the last batch of an epoch is shorter."""

    def __init__(self, n=500, batch=64):
        g = torch.Generator().manual_seed(2)
        self.x = torch.randn(n, DIM, generator=g)
        self.y = torch.randint(0, 3, (n,), generator=g)
        self.batch = batch

    def epoch(self, drop_last=False):
        for i in range(0, len(self.x), self.batch):
            x, y = self.x[i:i + self.batch], self.y[i:i + self.batch]
            if drop_last and len(x) < self.batch:
                return
            yield x, y


class Stage:
    def __init__(self, rank, world):
        self.rank, self.world = rank, world
        self.first, self.last = rank == 0, rank == world - 1
        out = 3 if self.last else DIM
        self.net = nn.Sequential(nn.Linear(DIM, DIM), nn.Tanh(), nn.Linear(DIM, out))
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.05)

    def forward(self, micro_x, rows):
        if self.first:
            inp = micro_x
        else:
            inp = torch.empty(rows, DIM)
            dist.recv(inp, src=self.rank - 1)
            inp.requires_grad_()
        out = self.net(inp)
        if not self.last:
            dist.send(out.detach(), dst=self.rank + 1)
        return inp, out

    def backward(self, inp, out, micro_y, n):
        if self.last:
            loss = nn.functional.cross_entropy(out, micro_y) / n
            loss.backward()
            value = loss.item()
        else:
            grad = torch.empty_like(out)
            dist.recv(grad, src=self.rank + 1)
            out.backward(grad)
            value = 0.0
        if not self.first:
            dist.send(inp.grad, dst=self.rank - 1)
        return value

    def step(self, x, y):
        xs, ys = x.split(MICRO), y.split(MICRO)
        self.opt.zero_grad()
        kept = [self.forward(mx, len(mx)) for mx in xs]
        loss = sum(self.backward(*kv, my, len(ys)) for kv, my in zip(kept, ys))
        self.opt.step()
        return loss


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    stage = Stage(rank, world)
    data = Source()
    for epoch in range(4):
        losses = [stage.step(x, y) for x, y in data.epoch(drop_last=stage.last)]
        if stage.last:
            print(f"epoch {epoch} loss {sum(losses) / len(losses):.4f}", flush=True)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
