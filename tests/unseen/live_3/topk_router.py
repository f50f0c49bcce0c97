"""Toy mixture of experts: each rank keeps one expert, tokens travel by all_to_all."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

WIDTH, TOKENS, ROUNDS = 32, 48, 60


class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)

    def forward(self, x):
        return self.down(F.silu(self.up(x)))


def make_tokens(step, rank):
    g = torch.Generator().manual_seed(step * 97 + rank)
    x = torch.randn(TOKENS, WIDTH, generator=g)
    if step == 2 and rank == 2:
        x = x.abs() * -1.0  # a page of blanks: everything is below the gate
    return x


def exchange(x, keep):
    world = dist.get_world_size()
    if not keep.any():  #: LINE
        return None
    buf = torch.zeros(TOKENS, WIDTH)
    buf[keep] = x[keep]
    got = torch.empty_like(buf)
    dist.all_to_all_single(got, buf)
    return got.view(world, -1, WIDTH)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(5 + rank)
    expert = Expert()
    opt = torch.optim.AdamW(expert.parameters(), lr=1e-3)
    for step in range(ROUNDS):
        x = make_tokens(step, rank)
        keep = x.max(dim=1).values > 0.0
        routed = exchange(x, keep)
        loss = torch.zeros(())
        if routed is not None:
            loss = (expert(routed) - routed).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        load = torch.tensor([float(keep.sum()), float(loss)])
        dist.all_reduce(load)
        if rank == 0:
            print(f"step {step} tokens {int(load[0])} loss {load[1] / dist.get_world_size():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
