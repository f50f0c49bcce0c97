"""1F1B pipeline whose third stage costs ten times the others."""
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B


class Cheap(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.l = nn.Linear(d, d)

    def forward(self, x):
        return torch.tanh(self.l(x))


class Costly(Cheap):
    """solves a small fixed point per micro batch"""

    def forward(self, x):
        z = x
        for _ in range(12):
            z = torch.tanh(self.l(z)) * 0.5 + 0.5 * x
            time.sleep(0.02)
        return z


def make(rank, d):
    return Costly(d) if rank == 2 else Cheap(d)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    d, n = 20, 6
    mod = make(rank, d)
    stage = PipelineStage(mod, rank, world, torch.device("cpu"))
    sched = Schedule1F1B(stage, n_microbatches=n, loss_fn=nn.functional.mse_loss)
    opt = torch.optim.Adam(mod.parameters(), 1e-3)
    for it in range(8):
        t = time.time()
        if rank == 0:
            sched.step(torch.randn(24, d))
        elif rank == world - 1:
            losses = []
            sched.step(target=torch.zeros(24, d), losses=losses)
            print(f"it {it} loss {torch.stack(losses).mean().item():.4f} {time.time() - t:.2f}s", flush=True)
        else:
            sched.step()
        opt.step()
        opt.zero_grad()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
