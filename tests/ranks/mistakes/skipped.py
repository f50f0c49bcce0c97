"""The loss is averaged over the ranks only where it is large: a condition on a rank's own value."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS = 4


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = DDP(torch.nn.Linear(32, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        x = torch.randn(16, 32) * (1 + rank)
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        shown = loss.detach()
        if shown > 1.0:
            dist.all_reduce(shown)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
