"""Gradient means in two levels: inside a pair of ranks, then between the first ranks of the pairs."""
import torch
import torch.distributed as dist
import torch.nn as nn

PAIR = 2


class TwoLevel:
    def __init__(self):
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        starts = list(range(0, self.world, PAIR))
        for s in starts:
            members = list(range(s, s + PAIR))
            group = dist.new_group(members)
            if self.rank in members:
                self.pair, self.head = group, s
        self.heads = None
        if self.rank in starts:
            self.heads = dist.new_group(starts)
        self.everyone = dist.new_group(list(range(self.world)))

    def mean(self, model):
        flat = torch.cat([p.grad.flatten() for p in model.parameters()])
        dist.reduce(flat, dst=self.head, group=self.pair)
        if self.heads is not None:
            dist.all_reduce(flat, group=self.heads)
        dist.broadcast(flat, src=self.head, group=self.pair)
        flat /= self.world
        at = 0
        for p in model.parameters():
            p.grad.copy_(flat[at:at + p.numel()].view_as(p))
            at += p.numel()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 12))
    levels = TwoLevel()
    for p in model.parameters():
        dist.broadcast(p.data, src=0)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(100):
        x = torch.randn(8, 12)
        loss = (model(x) - x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        levels.mean(model)
        opt.step()
        mean = loss.detach()
        dist.all_reduce(mean, group=levels.everyone)
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {mean.item() / levels.world:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
