"""A new user's first DDP script: the validation is done on rank 0 only, through the wrapped model."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS = 4


def validate(model, batches):
    total = torch.zeros(1)
    for x, y in batches:
        with torch.no_grad():
            total += torch.nn.functional.mse_loss(model(x), y)
    dist.all_reduce(total)
    return total.item() / len(batches)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = [(torch.randn(16, 32), torch.randn(16, 1)) for _ in range(STEPS)]
    for step, (x, y) in enumerate(data):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        if rank == 0 and step % 2 == 1:
            print("validation", validate(model, data[:2]))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
