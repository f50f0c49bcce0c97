"""Knowledge distillation with DDP; after training the group is closed, the ranks leave, and rank 0 alone exports for a while."""
import os
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS, BATCH = 420, 32


def mlp(width, depth):
    layers = [nn.Linear(40, width), nn.ReLU()]
    for _ in range(depth - 1):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 6))


def quantise(model, seconds):
    """Searches the scale of each row with the smallest error, row by row, as long as the time lasts."""
    begin, tried = time.time(), 0
    scales = {}
    rows = [(n, i, row) for n, p in model.named_parameters() if p.dim() == 2 for i, row in enumerate(p.detach())]
    while time.time() - begin < seconds:
        for name, i, row in rows:
            top = row.abs().max().item()
            best = min(
                ((row - (row / s).round().clamp(-127, 127) * s).pow(2).sum().item(), s)
                for s in (top / 127 * f for f in (0.8, 0.9, 1.0, 1.05))
            )
            scales[name, i] = best[1]
            tried += 1
            if time.time() - begin > seconds:
                break
        print(f"export: {tried} rows", flush=True)
    return scales


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    teacher, student = mlp(256, 4).eval(), DDP(mlp(96, 2))
    opt = torch.optim.Adam(student.parameters(), lr=2e-3)
    g = torch.Generator().manual_seed(rank)
    for step in range(STEPS):
        x = torch.randn(BATCH, 40, generator=g)
        with torch.no_grad():
            target = (teacher(x) * 5).softmax(-1)
        loss = nn.functional.cross_entropy(student(x), target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 70 == 0:
            mean = loss.detach().clone()
            dist.reduce(mean, 0)
            if rank == 0:
                print(f"step {step} loss {mean.item() / world:.3f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()
    if rank == 0:
        scales = quantise(student.module, 40)
        path = os.path.join(tempfile.mkdtemp(prefix="export-"), "student.pt")
        torch.save({"weights": student.module.state_dict(), "scales": scales}, path)
        print("exported", os.path.getsize(path), flush=True)


if __name__ == "__main__":
    main()
