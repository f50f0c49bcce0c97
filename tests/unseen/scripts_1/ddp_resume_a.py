"""Small DDP regression job that keeps its newest checkpoint in a scratch folder."""
import argparse
import os
import shutil
import tempfile
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--batch-size", type=int, default=8)
    p.add_argument("--lr", type=float, default=0.05)
    return p.parse_args()


def make_data(n=96, dim=6):
    g = torch.Generator().manual_seed(7)
    x = torch.randn(n, dim, generator=g)
    w = torch.randn(dim, 1, generator=g)
    return TensorDataset(x, x @ w + 0.1)


def save_checkpoint(path, model, optim, epoch):
    tmp = path + ".part"
    torch.save(
        {"model": model.module.state_dict(), "optim": optim.state_dict(), "epoch": epoch},
        tmp,
    )
    os.replace(tmp, path)


def main():
    args = parse_args()
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)

    folder = [tempfile.mkdtemp(prefix="reg_") if rank == 0 else None]
    dist.broadcast_object_list(folder, src=0)
    latest = os.path.join(folder[0], "latest.pt")

    data = make_data()
    sampler = DistributedSampler(data, shuffle=True, seed=3)
    loader = DataLoader(data, batch_size=args.batch_size, sampler=sampler)
    model = DDP(nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1)))
    optim = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    loss_fn = nn.MSELoss()

    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optim.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            optim.step()
        if rank == 0:
            save_checkpoint(latest, model, optim, epoch)
            print(f"epoch {epoch} loss {loss.item():.4f}")
        dist.barrier()

    state = torch.load(latest, weights_only=True)
    model.module.load_state_dict(state["model"])
    optim.load_state_dict(state["optim"])
    check = torch.cat([p.detach().flatten() for p in model.parameters()]).sum()
    dist.all_reduce(check)
    if rank == 0:
        print(f"reloaded epoch {state['epoch']} on {world} ranks, checksum {check.item():.4f}")
        shutil.rmtree(folder[0])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
