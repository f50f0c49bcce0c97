import logging
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

log = logging.getLogger("ep")


@dataclass
class Config:
    dim: int = 6
    max_tokens: int = 10
    steps: int = 9
    seed: int = 17


class A2A(torch.autograd.Function):
    """all_to_all with a backward, the usual way."""

    @staticmethod
    def forward(ctx, x, out_splits, in_splits):
        ctx.splits = (out_splits, in_splits)
        out = x.new_empty(sum(out_splits), x.shape[1])
        dist.all_to_all_single(out, x.contiguous(), out_splits, in_splits)
        return out

    @staticmethod
    def backward(ctx, g):
        out_splits, in_splits = ctx.splits
        back = g.new_empty(sum(in_splits), g.shape[1])
        dist.all_to_all_single(back, g.contiguous(), in_splits, out_splits)
        return back, None, None


class MoE(nn.Module):
    def __init__(self, cfg, rank, world):
        super().__init__()
        self.world = world
        torch.manual_seed(cfg.seed)
        self.gate = nn.Linear(cfg.dim, world, bias=False)
        torch.manual_seed(cfg.seed + rank + 1)
        self.expert = nn.Linear(cfg.dim, cfg.dim)

    def forward(self, x):
        if x.shape[0] == 0:
            return x
        probs = self.gate(x).softmax(-1)
        weight, which = probs.max(-1)
        order = which.argsort(stable=True)
        n_out = torch.bincount(which, minlength=self.world)
        n_in = torch.zeros_like(n_out)
        dist.all_to_all_single(n_in, n_out)
        a, b = n_in.tolist(), n_out.tolist()
        mine = A2A.apply(x[order], a, b)
        back = A2A.apply(self.expert(mine), b, a)
        return x.index_add(0, order, back * weight[order].unsqueeze(1))


def tokens(cfg, rank, step):
    """Packed sequences: how many tokens a rank has changes with the step."""
    g = torch.Generator().manual_seed(cfg.seed * 1000 + step * 10 + rank)
    n = 1 + (3 * rank + 2 * step) % cfg.max_tokens
    if rank == 2 and step == 6:
        n = 0
    return torch.randn(n, cfg.dim, generator=g)


def main():
    cfg = Config()
    dist.init_process_group(backend="gloo", timeout=timedelta(seconds=20))
    rank, world = dist.get_rank(), dist.get_world_size()
    logging.basicConfig(level=logging.INFO if rank == 0 else logging.WARNING)
    model = MoE(cfg, rank, world)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(cfg.steps):
        x = tokens(cfg, rank, step).requires_grad_()
        out = model(x)
        loss = out.pow(2).sum() / cfg.max_tokens
        opt.zero_grad()
        loss.backward()
        if model.gate.weight.grad is None:
            model.gate.weight.grad = torch.zeros_like(model.gate.weight)
        dist.all_reduce(model.gate.weight.grad)
        opt.step()
        seen = torch.tensor([len(x)])
        dist.all_reduce(seen)
        log.info("step %d tokens %d", step, seen.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
