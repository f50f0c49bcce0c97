import statistics
import time

import torch
import torch.distributed as dist

from clock import Clock
from songs import Shelf, Songs


def learn(model, song, parts):
    loss = model(song) / parts
    loss.backward()
    return loss.detach()


def share(parameters):
    """The mean of the gradients of all ranks, in one message."""
    grads = [p.grad for p in parameters]
    flat = torch.cat([g.flatten() for g in grads])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for g, mean in zip(grads, flat.split([g.numel() for g in grads])):
        g.copy_(mean.view_as(g))


def main(steps=60, batch=32):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = Songs()
    parameters = list(model.parameters())
    optimizer = torch.optim.Adam(parameters, lr=2e-3, fused=True)
    shelf, clock = Shelf(rank), Clock()
    times = []
    for step in range(steps):
        began = time.perf_counter()
        songs = shelf.draw(batch)
        optimizer.zero_grad()
        for song in songs:
            loss = clock.run("learn", learn, model, song, len(songs))
        clock.run("share", share, parameters)
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.5f} {clock.table()}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
