"""A batch that one rank cannot use is left out by all; every step begins with a vote."""
import logging
import time
import traceback

import torch
import torch.distributed as dist
from torch import nn

logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")


class BadScan(RuntimeError):
    pass


def scan(step, rank):
    if (step * 3 + rank) % 23 == 5:
        raise BadScan(f"scan {step}/{rank}: checksum does not match")
    g = torch.Generator().manual_seed(step * 6 + rank)
    return torch.randn(24, 10, generator=g)


def try_scan(step, rank):
    try:
        return scan(step, rank)
    except BadScan:
        logging.error("rank %d could not read:\n%s", rank, traceback.format_exc())
        return None


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = nn.Linear(10, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.02)
    skipped = 0
    for step in range(90):
        x = try_scan(step, rank)
        vote = torch.tensor([int(x is not None)])
        dist.all_reduce(vote, op=dist.ReduceOp.MIN)
        if not vote.item():
            skipped += 1
            continue
        loss = (net(x) - x.mean(dim=1, keepdim=True)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        flat = torch.cat([p.grad.flatten() for p in net.parameters()])
        dist.all_reduce(flat)
        begin = 0
        for p in net.parameters():
            p.grad.copy_(flat[begin:begin + p.numel()].view_as(p) / dist.get_world_size())
            begin += p.numel()
        opt.step()
        time.sleep(0.1)
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f} left out {skipped}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
