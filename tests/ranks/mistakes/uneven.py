"""The samples are shared out by slicing: rank 0 has one batch more than rank 1."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

BATCHES = 7


def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DDP(torch.nn.Linear(32, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = [torch.randn(16, 32) for _ in range(BATCHES)]
    for x in data[rank::size]:
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
