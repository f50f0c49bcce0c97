"""Programs with DDP, FSDP2 and a mesh of 2 x 2 x 2. ``python parallel.py NAME FOLDER``."""

import threading
import time

import torch
import torch.distributed as dist
from job import BAD_STEP, main, say, work
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel


def train(model, rank, bad_rank, act):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for i in range(100):
        x = torch.ones(8, 64)
        work(x)
        if rank == bad_rank and i == BAD_STEP:
            say("fault")
            act()
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def layers():
    return nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64))


def augment():
    time.sleep(3600)


def wait_for_token():
    threading.Event().wait()


def ddp_lock(rank, world):
    train(DistributedDataParallel(layers()), rank, 1, wait_for_token)


def ddp_sleep(rank, world):
    train(DistributedDataParallel(layers()), rank, 3, augment)


def fsdp_lock(rank, world):
    model = layers()
    for layer in (model[0], model[2]):
        fully_shard(layer)
    train(fully_shard(model), rank, 2, wait_for_token)


def mesh_step(rank, act):
    mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("pp", "dp", "tp"))
    tp, dp = mesh["tp"].get_group(), mesh["dp"].get_group()
    x = torch.ones(64, 64)
    for i in range(100):
        if rank >= 4:
            dist.recv(x, src=rank - 4)
        work(x)
        act(i, x, tp, dp)
        dist.all_reduce(x, group=tp)
        if rank < 4:
            dist.send(x, dst=rank + 4)
        dist.all_reduce(x, group=dp)


def mesh_lock(rank, world):
    def act(i, x, tp, dp):
        if rank == 5 and i == BAD_STEP:
            say("fault")
            wait_for_token()

    mesh_step(rank, act)


def mesh_extra(rank, world):
    def act(i, x, tp, dp):
        if rank == 2 and i == BAD_STEP:
            say("fault")
            dist.all_gather([torch.empty(64, 64) for _ in range(2)], x, group=dp)

    mesh_step(rank, act)


if __name__ == "__main__":
    main(globals())
