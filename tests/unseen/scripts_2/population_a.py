"""Population based training: every process has its own learning rate and copies from the better half."""
import argparse
import random

import torch
import torch.distributed as dist
import torch.nn.functional as F


class Member:
    def __init__(self, index, seed):
        torch.manual_seed(seed)
        self.index = index
        self.net = torch.nn.Sequential(torch.nn.Linear(5, 10), torch.nn.Tanh(), torch.nn.Linear(10, 1))
        self.log_lr = torch.tensor([-3.0 + 0.5 * index])

    def batches(self, n):
        g = torch.Generator().manual_seed(500 + self.index)
        for _ in range(n):
            x = torch.randn(32, 5, generator=g)
            yield x, x.abs().sum(1, keepdim=True)

    def fit(self, x, y):
        loss = F.mse_loss(self.net(x), y)
        grads = torch.autograd.grad(loss, list(self.net.parameters()))
        with torch.no_grad():
            for p, grad in zip(self.net.parameters(), grads):
                p -= self.log_lr.exp() * 0.1 * grad
        return loss.item()

    def score(self):
        g = torch.Generator().manual_seed(1)
        x = torch.randn(64, 5, generator=g)
        with torch.no_grad():
            return -F.mse_loss(self.net(x), x.abs().sum(1, keepdim=True)).item()

    def tensors(self):
        return [p.data for p in self.net.parameters()] + [self.log_lr]


def exploit(member, rng, world):
    scores = [None] * world
    dist.all_gather_object(scores, member.score())
    ranking = sorted(range(world), key=scores.__getitem__, reverse=True)
    better = ranking[: world // 2]
    donor = rng.choice(better)
    received = []
    for t in member.tensors():
        box = t.clone()
        dist.broadcast(box, src=donor)
        received.append(box)
    if member.index not in better:
        for t, box in zip(member.tensors(), received):
            t.copy_(box)
        member.log_lr += 0.2 * (member.index % 2 * 2 - 1)
    return donor


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=20)
    ap.add_argument("--interval", type=int, default=4)
    ap.add_argument("--seed", type=int, default=1859)
    args = ap.parse_args()

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    member = Member(rank, args.seed)
    rng = random.Random(args.seed + rank)
    donors = []
    for step, (x, y) in enumerate(member.batches(args.steps), 1):
        member.fit(x, y)
        if step % args.interval == 0:
            donors.append(exploit(member, rng, world))
    if rank == 0:
        print("donors", donors, flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
