"""Asynchronous parameter server: rank 0 serves whoever comes (recv from any source); the workers have different speeds."""
import random
import time

import torch
import torch.distributed as dist
from torch import nn

PUSHES = {1: 420, 2: 300, 3: 160, 4: 220}  # what each worker does before it leaves
DONE = -1.0


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(32, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 6))

    def forward(self, x):
        return self.net(x)


def flatten(tensors):
    return torch.cat([t.reshape(-1) for t in tensors])


def load(model, flat):
    at = 0
    for p in model.parameters():
        p.data.copy_(flat[at : at + p.numel()].view_as(p))
        at += p.numel()


def serve(model, workers):
    params = flatten([p.data for p in model.parameters()])
    momentum = torch.zeros_like(params)
    message = torch.empty(len(params) + 1)
    active, n, losses = set(workers), 0, []
    while active:
        source = dist.recv(message)  # any source
        if message[-1].item() == DONE:
            active.remove(source)
            print(f"worker {source} has left, still active {sorted(active)}", flush=True)
            continue
        losses.append(message[-1].item())
        momentum.mul_(0.8).add_(message[:-1])
        params.add_(momentum, alpha=-0.01)
        dist.send(params, source)
        n += 1
        if n % 200 == 0:
            print(f"update {n} loss {sum(losses[-50:]) / 50:.3f}", flush=True)


def work(model, rank, pushes):
    g, rng = torch.Generator().manual_seed(rank), random.Random(rank)
    flat = flatten([p.data for p in model.parameters()])
    for i in range(pushes):
        begin = time.time()
        spent = rng.choice([0.02, 0.05, 0.05, 0.15]) * (1.5 if rank == 3 else 1.0)
        rows = []
        while time.time() - begin < spent or not rows:  # simulated episodes, of any length
            rows.append(torch.randn(8, 32, generator=g).tanh())
        x = rows[-1]
        y = x[:, :6].argmax(1)
        loss = nn.functional.cross_entropy(model(x), y)
        model.zero_grad()
        loss.backward()
        grad = flatten([p.grad for p in model.parameters()])
        dist.send(torch.cat([grad, loss.detach().view(1)]), 0)
        dist.recv(flat, 0)
        load(model, flat)
    dist.send(torch.cat([torch.zeros_like(flat), torch.tensor([DONE])]), 0)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = Net()
    dist.barrier()
    if rank == 0:
        serve(model, range(1, world))
    else:
        work(model, rank, PUSHES[rank])
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
