"""DDP on synthetic regression, the mean loss is logged by rank 0."""
import frdump  # noqa: F401
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Logger:
    def __init__(self, every):
        self.every = every
        self.rank, self.world = dist.get_rank(), dist.get_world_size()

    def mean(self, value):
        value = value.detach().clone()
        dist.reduce(value, dst=0)
        return value.item() / self.world

    def log(self, step, loss):
        if step % self.every == 0 and self.rank == 0:
            print(f"step {step:4d} mean loss {self.mean(loss):.5f}", flush=True)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    net = nn.Sequential(nn.Linear(24, 96), nn.GELU(), nn.Linear(96, 1))
    ddp = DDP(net)
    opt = torch.optim.Adam(ddp.parameters(), lr=3e-3)
    logger = Logger(every=25)
    if dist.get_rank() == 0:
        print("training starts", flush=True)
    for step in range(1, 201):
        x = torch.randn(32, 24)
        y = x[:, :3].sum(1, keepdim=True)
        loss = ((ddp(x) - y) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        logger.log(step, loss)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
