import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F

from towers import Ratings, Sessions, Traffic


def average(parameters, world):
    parameters = [p for p in parameters]
    flat = torch.cat([p.grad.flatten() for p in parameters])
    dist.all_reduce(flat)
    for p, g in zip(parameters, (flat / world).split([p.numel() for p in parameters])):
        p.grad.copy_(g.view_as(p))


def session_loss(model, session):
    logits = model(session[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), session[:, 1:].flatten())


def rating_loss(model, x, stars, weight, world, total, work):
    """Every rank divides by the weight of all the ranks, so that each rating counts alike."""
    errors = weight * (model(x) - stars) ** 2
    work.wait()
    return world * errors.sum() / total


def main(steps=60, listeners=60):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    sessions, ratings = Sessions(), Ratings()
    parameters = [*sessions.parameters(), *ratings.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    traffic = Traffic(rank)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        session, x, stars, weight = traffic.batch(listeners)
        total = weight.sum()
        work = dist.all_reduce(total, async_op=True)
        optimizer.zero_grad()
        first = session_loss(sessions, session)
        first.backward()
        second = rating_loss(ratings, x, stars, weight, world, total, work)
        second.backward()
        average(parameters, world)
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"sessions {first.item():.4f} ratings {second.item():.4f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
