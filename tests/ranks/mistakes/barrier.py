"""Rank 0 saves and waits in a barrier that no other rank enters."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS = 4


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(torch.nn.Linear(32, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(torch.randn(16, 32)).pow(2).mean().backward()
        optimizer.step()
        if rank == 0:
            torch.save(model.state_dict(), "model.pt")
            dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
