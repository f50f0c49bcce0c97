"""Picture and text towers, two ranks. The picture tower's gradients travel while the text tower runs backward."""

import statistics
import time

import torch
import torch.distributed as dist
from torch import nn

from exchange import finish, start


def tower(inputs):
    return nn.Sequential(nn.Linear(inputs, 360), nn.ReLU(), nn.Linear(360, 360), nn.ReLU(), nn.Linear(360, 48))


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    picture, text = tower(256), tower(200)
    optimizer = torch.optim.AdamW([*picture.parameters(), *text.parameters()], lr=1e-3)
    code = torch.randn(16, 456, generator=torch.Generator().manual_seed(8))
    took = []
    for step in range(100):
        t0 = time.perf_counter()
        rng = torch.Generator().manual_seed(step * world + rank)
        both = torch.randn(640, 16, generator=rng) @ code
        a, b = picture(both[:, :256]), text(both[:, 256:])
        cut_a, cut_b = a.detach().requires_grad_(), b.detach().requires_grad_()
        loss = nn.functional.mse_loss(cut_a, cut_b) - 0.1 * (cut_a.std(0).mean() + cut_b.std(0).mean())
        optimizer.zero_grad()
        loss.backward()
        a.backward(cut_a.grad)
        first = start(picture)
        b.backward(cut_b.grad)
        second = start(text)
        finish(picture, *first)
        finish(text, *second)
        optimizer.step()
        took.append(time.perf_counter() - t0)
    if rank == 0:
        print(f"loss {loss.item():.4f}")
        print(f"{1e3 * statistics.median(took):.2f} ms/step median, {1e3 * statistics.mean(took):.2f} ms/step")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
