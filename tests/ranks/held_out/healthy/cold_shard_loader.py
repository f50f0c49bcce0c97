#: n=4 ok set=3
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset


class ColdStorage(Dataset):
    """Rows live in shards; one shard of rank 0 must be recalled from tape."""

    def __init__(self, rank, n=180):
        self.rank, self.n = rank, n

    def _recall(self):
        print("FREEZE", time.time(), flush=True)
        deadline = time.time() + 22
        while time.time() < deadline:
            time.sleep(0.5)

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        time.sleep(0.03)
        if self.rank == 0 and i == 100:
            self._recall()
        x = torch.randn(7, generator=torch.Generator().manual_seed(i + 1000 * self.rank))
        return x, x.sum()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(7, 14)
        self.b = nn.Linear(14, 1)

    def forward(self, x):
        return self.b(torch.relu(self.a(x))).squeeze(-1)


class Smoothed:
    def __init__(self):
        self.value = None

    def push(self, v):
        self.value = v if self.value is None else 0.9 * self.value + 0.1 * v
        return self.value


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(0)
    loader = DataLoader(ColdStorage(rank), batch_size=4, num_workers=1)
    model = DDP(Net())
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    smooth = Smoothed()
    for step, (x, y) in enumerate(loader):
        time.sleep(0.1)
        loss = nn.functional.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        value = smooth.push(loss.item())
        if rank == 0 and step % 5 == 0:
            print(f"step {step} smoothed {value:.3f}", flush=True)
    dist.barrier()
    del model  # torch 2.13 may wait for ever where DDP is freed after its group
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
