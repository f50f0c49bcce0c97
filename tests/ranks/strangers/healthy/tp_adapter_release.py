#: n=4 ok set=2
"""2x2 mesh: frozen tensor-parallel backbone, trainable head that is averaged
over the data-parallel axis. Rank 3 publishes a release which rank 0 prepares."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

RELEASE_AT = 18
PREPARE_S = 25


class Backbone(nn.Module):
    def __init__(self, dim=12):
        super().__init__()
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


def private_store(rank):
    if rank == 0:
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    box = [store.port if rank == 0 else None]
    dist.broadcast_object_list(box, src=0)
    if rank != 0:
        store = dist.TCPStore("127.0.0.1", box[0], is_master=False, wait_for_workers=False)
    return store


def quantize(weights, seconds):
    """Row by row search for the best scale."""
    end = time.monotonic() + seconds
    best = 1.0
    while time.monotonic() < end:
        for k in range(1, 40):
            scale = k / 40
            err = (weights - (weights / scale).round() * scale).abs().mean().item()
            best = min(best, err)
        time.sleep(0.05)
    return best


def release(store, rank, head, step):
    if rank == 0:
        print("FREEZE", time.time(), flush=True)
        err = quantize(head.weight.detach(), PREPARE_S)
        store.set(f"release/{step}", f"{err:.5f}")
    elif rank == 3:
        store.wait([f"release/{step}"], timedelta(minutes=5))
        print("released with error", store.get(f"release/{step}").decode(), flush=True)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    dp_index, _ = mesh.get_coordinate()
    store = private_store(rank)
    torch.manual_seed(0)
    backbone, head = Backbone(), nn.Linear(12, 3)
    backbone.requires_grad_(False)
    parallelize_module(backbone, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    opt = torch.optim.Adam(head.parameters(), lr=1e-2)
    gen = torch.Generator().manual_seed(dp_index)  # tp peers share their data

    for step in range(40):
        time.sleep(0.16)
        x = torch.randn(8, 12, generator=gen)
        with torch.no_grad():
            h = backbone(x)
        loss = nn.functional.cross_entropy(head(h), x[:, :3].argmax(dim=1))
        opt.zero_grad()
        loss.backward()
        for p in head.parameters():
            dist.all_reduce(p.grad, group=mesh.get_group("dp"))
            p.grad /= 2
        opt.step()
        if step == RELEASE_AT:
            release(store, rank, head, step)
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)

    dist.barrier()
    dist.destroy_process_group()
    if rank == 0:
        time.sleep(12)  # writes the model card, the other ranks are gone by now
        print("model card written", flush=True)


if __name__ == "__main__":
    main()
