"""Tide forecast, plain data parallel with one bucket for all gradients."""
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import flightrec  # noqa: F401


def series(n, phase):
    t = torch.arange(n) / 12.0
    return torch.sin(t * 2.1 + phase) + 0.4 * torch.sin(t * 1.03) + 0.05 * torch.randn(n)


class Forecaster(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.rnn = nn.LSTM(1, width, batch_first=True)
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        h, _ = self.rnn(x.unsqueeze(-1))
        return self.out(h).squeeze(-1)


def step(model, opt, window):
    loss = nn.functional.mse_loss(model(window[:, :-1]), window[:, 1:])
    opt.zero_grad(set_to_none=False)
    loss.backward()
    grads = parameters_to_vector(p.grad for p in model.parameters())
    dist.all_reduce(grads)
    vector_to_parameters(grads / dist.get_world_size(), [p.grad for p in model.parameters()])
    opt.step()
    return loss.detach()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    data = series(60000, phase=rank)
    torch.manual_seed(0)
    model = Forecaster()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for i in range(100000):
        start = (i * 97) % (len(data) - 33 * 16)
        window = data[start:start + 33 * 16].view(16, 33)
        loss = step(model, opt, window)
        if i % 200 == 0:
            dist.reduce(loss, dst=0)
            if rank == 0:
                print(f"iter {i} loss {(loss / world).item():.5f}", file=sys.stderr, flush=True)
        if i and i % 1000 == 0:
            if rank == 0:
                torch.save(model.state_dict(), "tides.pt")
            dist.barrier()


if __name__ == "__main__":
    main()
