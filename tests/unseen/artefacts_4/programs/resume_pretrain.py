"""Pre-training that resumes from the newest checkpoint any rank has kept."""
import glob
import os
import re

import flightdump  # noqa: F401
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

CKPT = os.environ["CKPT_DIR"]


def newest():
    """(step, rank, path) of the newest checkpoint, or None"""
    found = []
    for path in glob.glob(os.path.join(CKPT, "step*_rank*.pt")):
        m = re.search(r"step(\d+)_rank(\d+)\.pt$", path)
        found.append((int(m.group(1)), int(m.group(2)), path))
    return max(found) if found else None


def resume(model):
    last = newest()
    if last is None:
        return 0
    step, owner, path = last
    if dist.get_rank() == owner:
        model.load_state_dict(torch.load(path))
    for p in model.state_dict().values():
        dist.broadcast(p, src=owner)
    return step


def save(model, step):
    rank = dist.get_rank()
    path = os.path.join(CKPT, f"step{step:06d}_rank{rank}.pt")
    torch.save(model.state_dict(), path)


def network():
    return nn.Sequential(nn.Linear(40, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
                         nn.Linear(512, 40))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    local_rank = int(os.environ["LOCAL_RANK"])
    os.makedirs(CKPT, exist_ok=True)
    torch.manual_seed(0)
    net = network()
    dist.barrier()
    start = resume(net)
    if rank == 0:
        print(f"starting at step {start}", flush=True)

    model = DDP(net)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    g = torch.Generator().manual_seed(rank + start)
    for step in range(start, start + 300):
        x = torch.randn(32, 40, generator=g)
        loss = (model(x) - x.flip(1)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 100 == 99 and local_rank == 1:
            save(net, step + 1)
        if step % 50 == 0 and rank == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
