"""Optional gradient statistics; ranks to look at come from the environment."""
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def probe_ranks():
    text = os.environ.get("PROBE_RANKS", "")
    return {int(t) for t in text.split(",") if t.strip()}


class GradProbe:
    def __init__(self, model, every):
        self.model = model
        self.every = every
        self.on = dist.get_rank() in probe_ranks()

    def __call__(self, step):
        if not self.on or step % self.every:  #: LINE
            return None
        sq = torch.stack([p.grad.pow(2).sum() for p in self.model.parameters()])
        dist.all_reduce(sq, op=dist.ReduceOp.MAX)  #: LINE
        return sq.sqrt().tolist()


def data(rank, steps):
    g = torch.Generator().manual_seed(rank)
    for _ in range(steps):
        x = torch.randn(10, 14, generator=g)
        yield x, x[:, :2].tanh()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(torch.nn.Sequential(torch.nn.Linear(14, 14), torch.nn.ELU(), torch.nn.Linear(14, 2)))
    optim = torch.optim.RMSprop(model.parameters(), 1e-3)
    probe = GradProbe(model, every=10)
    for step, (x, y) in enumerate(data(rank, 60), start=1):
        loss = torch.nn.functional.smooth_l1_loss(model(x), y)
        optim.zero_grad()
        loss.backward()
        stats = probe(step)
        if stats:
            print(f"rank {rank} step {step} max grad norms {[round(s, 4) for s in stats]}", flush=True)
        optim.step()
        if rank == 0 and step % 5 == 0:
            print(f"step {step}: {loss.item():.5f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
