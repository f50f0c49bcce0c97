"""Loader workers start slowly on a cold cache and keep a lead afterwards."""
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler, get_worker_info


class Cold(Dataset):
    def __init__(self, rank, n=192):
        self.rank, self.n = rank, n
        self.opened = False

    def _open(self):
        info = get_worker_info()
        time.sleep(6 if self.rank == 1 and info.id == 0 else 1)
        self.opened = True
        print(f"rank {self.rank} worker {info.id} has its index", flush=True)

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if not self.opened:
            self._open()
        if i % 61 == 0:
            time.sleep(1.5)
        x = torch.randn(22, generator=torch.Generator().manual_seed(i))
        return x, x[:3]


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    data = Cold(rank)
    sampler = DistributedSampler(data, seed=3)
    loader = DataLoader(data, batch_size=6, sampler=sampler, num_workers=2, persistent_workers=True)
    torch.manual_seed(0)
    model = DDP(torch.nn.Linear(22, 3))
    opt = torch.optim.SGD(model.parameters(), 0.1)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        t = time.time()
        for x, y in loader:
            loss = (model(x) - y).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        if rank == 0:
            print(f"epoch {epoch} loss {loss.item():.4f} in {time.time() - t:.1f}s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
