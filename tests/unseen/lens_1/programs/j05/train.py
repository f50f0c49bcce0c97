import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from store import RemoteStore
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Images(Dataset):
    def __init__(self, store):
        self.store = store

    def __len__(self):
        return self.store.size

    def __getitem__(self, i):
        return self.store.fetch(i)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(3, 8, 3, padding=1)
        self.c2 = nn.Conv2d(8, 16, 3, padding=1, stride=2)
        self.c3 = nn.Conv2d(16, 16, 3, padding=1, stride=2)
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        x = F.relu(self.c1(x))
        x = F.relu(self.c2(x))
        x = F.relu(self.c3(x))
        return self.head(x.mean((2, 3)))


def run():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    data = Images(RemoteStore(640, 0.008))
    sampler = DistributedSampler(data, world, rank, shuffle=True)
    loader = DataLoader(data, batch_size=12, sampler=sampler)
    net = DistributedDataParallel(Net())
    opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    n = 0
    for i, (images, labels) in enumerate(loader):  #: LINE
        if i == 3:
            begin = time.perf_counter()
        out = net(images)
        loss = F.cross_entropy(out, labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        n = i + 1
    end = time.perf_counter()
    if rank == 0:
        print(f"{n} batches, loss {loss.item():.3f}, {(end - begin) / (n - 3) * 1000:.2f} ms/step", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    run()
