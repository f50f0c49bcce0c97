"""Spatial parallelism: a periodic field is cut into strips, neighbours exchange halos before each convolution."""
import os

import torch
import torch.distributed as dist
from torch import nn

STEPS, ROWS, COLS, CH, HALO = 400, 24, 48, 8, 1


class Halo:
    """Brings the rows of the neighbours above and below (the field is a ring of strips)."""

    def __init__(self, rank, world):
        self.up, self.down = (rank - 1) % world, (rank + 1) % world
        self.lean = False

    def exchange(self, x):
        top, bottom = x[:, :, :HALO].detach().contiguous(), x[:, :, -HALO:].detach().contiguous()
        above, below = torch.empty_like(bottom), torch.empty_like(top)
        if self.lean:  # no requests and no second set of buffers
            dist.send(bottom, self.down)  #: LINE
            dist.recv(above, self.up)
            dist.send(top, self.up)  #: LINE
            dist.recv(below, self.down)
        else:
            ops = [
                dist.P2POp(dist.isend, bottom, self.down),
                dist.P2POp(dist.irecv, above, self.up),
                dist.P2POp(dist.isend, top, self.up, tag=1),
                dist.P2POp(dist.irecv, below, self.down, tag=1),
            ]
            for work in dist.batch_isend_irecv(ops):
                work.wait()
        return torch.cat([above, x, below], 2)


class Stepper(nn.Module):
    def __init__(self, halo):
        super().__init__()
        self.halo = halo
        self.convs = nn.ModuleList([nn.Conv2d(2, CH, 3), nn.Conv2d(CH, CH, 3), nn.Conv2d(CH, 2, 3)])

    def forward(self, x):
        h = x
        for i, conv in enumerate(self.convs):
            h = nn.functional.pad(self.halo.exchange(h), (1, 1, 0, 0), mode="circular")
            h = conv(h)
            if i < 2:
                h = torch.tanh(h)
        return x + h


def field(g, batch):
    x = torch.randn(batch, 2, ROWS, COLS, generator=g)
    k = torch.ones(2, 1, 5, 5) / 25
    return nn.functional.conv2d(nn.functional.pad(x, (2, 2, 2, 2), mode="circular"), k, groups=2)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    halo = Halo(rank, world)
    model = Stepper(halo)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    g = torch.Generator().manual_seed(rank)
    for step in range(STEPS):
        batch = 4 if step < 150 else 16  # large batches from here on
        halo.lean = batch > 8
        x = field(g, batch)
        target = 0.9 * x + 0.1 * x.roll(1, 3)
        loss = nn.functional.mse_loss(model(x), target)
        opt.zero_grad()
        loss.backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad /= world
        opt.step()
        if rank == 0 and step % 50 == 0:
            print(f"step {step} loss {loss.item():.5f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
