"""A parameter server (rank 0) and workers that push gradients and pull weights."""
import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn

PUSH, DONE = 1, 0


def flat_grads(model):
    return torch.cat([p.grad.reshape(-1) for p in model.parameters()])


def load_flat(model, flat):
    at = 0
    for p in model.parameters():
        p.data.copy_(flat[at:at + p.numel()].view_as(p))
        at += p.numel()


def make_model():
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))


def serve(world, lr=0.05):
    weights = torch.cat([p.data.reshape(-1) for p in make_model().parameters()])
    open_workers = list(range(1, world))
    word = torch.zeros(1, dtype=torch.int64)
    grads = torch.empty_like(weights)
    updates = 0
    while open_workers:
        for worker in list(open_workers):
            dist.recv(word, src=worker)
            if word.item() == DONE:
                open_workers.remove(worker)
                continue
            dist.recv(grads, src=worker)
            weights -= lr * grads
            updates += 1
            dist.send(weights, dst=worker)
    print(f"server: {updates} updates", flush=True)


def shard(rank):
    rows = {1: 64, 2: 72, 3: 40}.get(rank, 64)
    g = torch.Generator().manual_seed(rank)
    x = torch.randn(rows, 6, generator=g)
    y = x.sum(1, keepdim=True).tanh()
    return zip(x.split(8), y.split(8))


def work(rank, max_steps):
    model = make_model()
    push, done = torch.tensor([PUSH]), torch.tensor([DONE])
    for step, (x, y) in enumerate(shard(rank)):
        if step == max_steps:
            dist.send(done, dst=0)
            break
        model.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        grads = flat_grads(model)
        dist.send(push, dst=0)
        dist.send(grads, dst=0)
        dist.recv(grads, src=0)
        load_flat(model, grads)
    return loss.item()


def main(argv):
    max_steps = int(argv[0]) if argv else 7
    dist.init_process_group("gloo")
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if rank == 0:
        serve(world)
    else:
        last = work(rank, max_steps)
        print(f"worker {rank}: last loss {last:.3f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
