import time
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler, get_worker_info


class Archive(Dataset):
    """the index of the tar files is read by the worker when it needs it for the first time"""

    def __init__(self, n=640):
        self.n, self.index = n, None

    def build_index(self):
        t0, index = time.time(), {}
        for shard in range(50):
            for row in range(200):
                index[shard * 200 + row] = (shard * 31 + row * 17) % 1000
            time.sleep(0.9)                       # a cold disk, far away
        print(f"worker {get_worker_info().id}: index read in {time.time() - t0:.0f} s", flush=True)
        return index

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if self.index is None:
            self.index = self.build_index()
        v = self.index[i] / 1000
        return torch.full((12,), v) + torch.randn(12) * 0.1, torch.tensor([v])


dist.init_process_group("gloo")
data = Archive()
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=8, sampler=sampler, num_workers=1, persistent_workers=True, prefetch_factor=4)
torch.manual_seed(0)
net = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 1)))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(6):
    sampler.set_epoch(epoch)
    total = 0.0
    for x, y in loader:
        loss = nn.functional.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    if dist.get_rank() == 0:
        print(f"epoch {epoch}: {total / len(loader):.5f}", flush=True)
dist.destroy_process_group()
