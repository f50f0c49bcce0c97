"""DDP; rank 0 runs the full evaluation after each epoch, the others wait."""
import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        x = torch.relu(self.conv1(x))
        x = nn.functional.max_pool2d(x, 2)
        x = torch.relu(self.conv2(x)).mean((2, 3))
        return self.head(x)


@torch.no_grad()
def evaluate(net, batches):
    net.eval()
    g = torch.Generator().manual_seed(99)
    right = 0
    for i in range(batches):
        x = torch.randn(64, 3, 32, 32, generator=g)
        right += (net(x).argmax(1) == i % 10).sum().item()
    net.train()
    return right / (64 * batches)


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--eval-batches", type=int, default=2500)
    args = args.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = Net()
    ddp = DDP(net)
    opt = torch.optim.SGD(ddp.parameters(), lr=0.01)
    for step in range(12):
        x, y = torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))
        loss = nn.functional.cross_entropy(ddp(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 4 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    if rank == 0:
        print("evaluating on the full set", flush=True)
        print(f"accuracy {evaluate(net, args.eval_batches):.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
