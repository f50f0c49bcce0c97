"""FSDP2 on two nodes; at the end rank 0 writes the weights with eight levels per row."""
import frdump  # noqa: F401
import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def levels(row, k=8, rounds=12):
    centres = torch.linspace(row.min().item(), row.max().item(), k)
    for _ in range(rounds):
        nearest = (row[:, None] - centres).abs().argmin(1)
        for j in range(k):
            mine = row[nearest == j]
            if len(mine):
                centres[j] = mine.mean()
    return centres, nearest.to(torch.uint8)


def publish(state, path):
    packed = {}
    for name, value in state.items():
        table = value if value.dim() == 2 else value[None]
        packed[name] = [levels(row) for row in table]
        print(f"packed {name}", flush=True)
    torch.save(packed, path)


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--width", type=int, default=14000)
    args = args.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(128, args.width), nn.ReLU(), nn.Linear(args.width, 128))
    for part in (net[0], net[2]):
        fully_shard(part, mesh=mesh)
    fully_shard(net, mesh=mesh)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for step in range(10):
        x = torch.randn(8, 128)
        loss = (net(x) - x).pow(2).mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
    state = {k: v.full_tensor() for k, v in net.state_dict().items()}
    if rank == 0:
        print("publishing", flush=True)
        publish(state, "weights.pt")
    dist.barrier()
    if rank == 0:
        print("finished", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
