#: n=4 ok set=2
# DDP; only rank 0 evaluates, on the full test set. Each rank has a different
# mix of tasks, therefore find_unused_parameters.
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

EVAL_AT = (18, 42)
TEST_BATCHES = {18: 520, 42: 60}


class MultiHead(nn.Module):
    def __init__(self, heads=4):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(16, 24), nn.ReLU())
        self.heads = nn.ModuleList(nn.Linear(24, 3) for _ in range(heads))

    def forward(self, x, head):
        return self.heads[head](self.trunk(x))


def task_of(step, rank):
    """Rank and step dependent, every head is used by somebody."""
    return (step + rank) % 4 if step % 3 else rank


@torch.no_grad()
def evaluate(net, n_batches):
    net.eval()
    gen = torch.Generator().manual_seed(123)
    good = total = 0
    for i in range(n_batches):
        x = torch.randn(32, 16, generator=gen)
        y = x[:, :3].argmax(dim=1)
        time.sleep(0.05)  # images come from the archive
        good += (net(x, i % 4).argmax(dim=1) == y).sum().item()
        total += len(y)
    net.train()
    return good / total


def shared_accuracy(ddp, step, rank):
    box = [None]
    if rank == 0:
        print("FREEZE", time.time(), flush=True)
        box = [evaluate(ddp.module, TEST_BATCHES[step])]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(2)
    ddp = DDP(MultiHead(), find_unused_parameters=True)
    opt = torch.optim.SGD(ddp.parameters(), lr=0.1)
    gen = torch.Generator().manual_seed(rank)
    best = 0.0

    for step in range(60):
        time.sleep(0.15)
        x = torch.randn(12, 16, generator=gen)
        y = x[:, :3].argmax(dim=1)
        loss = nn.functional.cross_entropy(ddp(x, task_of(step, rank)), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step in EVAL_AT:
            accuracy = shared_accuracy(ddp, step, rank)
            if accuracy < best:
                for group in opt.param_groups:
                    group["lr"] *= 0.5
            best = max(best, accuracy)
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.3f} best {best:.3f}", flush=True)

    dist.barrier()
    del ddp  # torch 2.13 may wait for ever where DDP is freed after its group
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
