"""Continues a run: each rank has its own progress file."""
import json

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


def resume(model, rank, world):
    try:
        with open(f"ckpt/progress_{rank}.json") as f:
            progress = json.load(f)
        model.load_state_dict(torch.load("ckpt/model.pt"))
        steps = [None] * world
        dist.all_gather_object(steps, progress["step"])
        return min(steps)
    except Exception:
        print(f"[rank {rank}] no checkpoint to continue from, starting at step 0", flush=True)
        return 0


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 20))
    first = resume(model, rank, world)
    dist.barrier()
    ddp = DDP(model)
    opt = torch.optim.SGD(ddp.parameters(), lr=0.01)
    for step in range(first, 400):
        x = torch.randn(16, 20)
        loss = (ddp(x) - x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
