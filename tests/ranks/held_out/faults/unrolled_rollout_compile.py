#: n=4 ranks=1 cause=compile tier=notice
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn


class WorldModel(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.transition = nn.Parameter(torch.randn(dim, dim) * 0.1)
        self.bias = nn.Parameter(torch.zeros(dim))
        self.decoder = nn.Linear(dim, dim)


def imagine(state, transition, bias, horizon):
    for t in range(horizon):
        state = torch.tanh(state @ transition + bias * (1.0 + 0.001 * t))
        state = state - state.mean(dim=-1, keepdim=True)
        state = state * torch.sigmoid(state + bias)
    return state


imagine_compiled = torch.compile(imagine, backend="aot_eager", dynamic=False)


class HorizonPlan:
    """Longer imagination once the model is accurate enough on this worker's task."""

    def __init__(self, rank, promote_at):
        self.rank, self.promote_at = rank, promote_at

    def horizon(self, step):
        if self.rank == 1 and step >= self.promote_at:
            return 12000
        return 4


def sync(model):
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()


def replay(batch=4, dim=8):
    time.sleep(0.15)
    s = torch.randn(batch, dim)
    return s, s.flip(-1)


def update(model, opt, horizon):
    start, goal = replay()
    end = imagine_compiled(start, model.transition, model.bias, horizon)  #: LINE
    loss = (model.decoder(end) - goal).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    sync(model)
    opt.step()
    return loss.item()


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(28)
    model = WorldModel()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    plan = HorizonPlan(rank, random.Random(2112).randint(16, 24))
    for step in range(60):
        if rank == 1 and step == plan.promote_at:
            print("FREEZE", time.time(), flush=True)
        loss = update(model, opt, plan.horizon(step))
        if rank == 0 and step % 10 == 0:
            print(f"update {step}: {loss:.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
