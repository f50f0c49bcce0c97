"""The last batch is smaller on one rank, and its predictions are gathered without padding."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

SAMPLES = 30


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(torch.nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    mine = torch.randn(SAMPLES, 8)[rank * 16 : (rank + 1) * 16]
    for _ in range(3):
        optimizer.zero_grad()
        model(mine).pow(2).mean().backward()
        optimizer.step()
    scores = model(mine).detach().contiguous()
    dist.all_reduce(scores)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
