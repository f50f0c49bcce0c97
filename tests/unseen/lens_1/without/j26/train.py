import copy
import time

import torch
import torch.distributed as dist
from torch import nn


class Environment:
    """Replies to a batch of actions after its own simulation time."""

    def __init__(self, latency_s, dim):
        self.latency_s = latency_s
        self.dim = dim

    def rollout(self, n):
        time.sleep(self.latency_s)
        return torch.randn(n, self.dim), torch.randn(n)


def flat_grads(model):
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def set_grads(model, flat):
    at = 0
    for p in model.parameters():
        n = p.numel()
        p.grad.copy_(flat[at : at + n].view_as(p))
        at += n


def main():
    dist.init_process_group("gloo")
    world, rank = dist.get_world_size(), dist.get_rank()
    torch.manual_seed(5)
    width = 2048
    critic = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))
    target = copy.deepcopy(critic)
    opt = torch.optim.SGD(critic.parameters(), lr=1e-3)
    env = Environment(0.045, 64)
    torch.manual_seed(50 + rank)
    obs, reward = env.rollout(6)
    steps = 26
    for step in range(steps):
        if step == 3:
            t0 = time.perf_counter()
        with torch.no_grad():
            goal = reward + 0.97 * target(obs).squeeze(1)
        loss = (critic(obs).squeeze(1) - goal).square().mean()
        opt.zero_grad()
        loss.backward()
        flat = flat_grads(critic)
        work = dist.all_reduce(flat, async_op=True)
        obs, reward = env.rollout(6)
        work.wait()
        flat /= world
        set_grads(critic, flat)
        opt.step()
    if rank == 0:
        print(f"loss {loss.item():.4f}  {(time.perf_counter() - t0) / (steps - 3) * 1e3:.2f} ms/step", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
