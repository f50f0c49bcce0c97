import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset

CAMERA = {0: 32, 1: 32, 2: 32, 3: 256}         # pixels of the pictures of each site


def soften(img, rounds=12):
    for _ in range(rounds):
        img = (img + np.roll(img, 1, 0) + np.roll(img, -1, 0) + np.roll(img, 1, 1) + np.roll(img, -1, 1)) / 5
    return img


class Site(Dataset):
    def __init__(self, rank, n):
        self.side, self.n, self.rank = CAMERA[rank], n, rank

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.default_rng(i * 8 + self.rank)
        img = soften(rng.random((self.side, self.side)))
        step = self.side // 32
        return torch.from_numpy(img[::step, ::step].copy()).float()[None], int(i % 3)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    loader = DataLoader(Site(rank, 1440), batch_size=16, num_workers=0, drop_last=True)
    torch.manual_seed(0)
    net = DDP(nn.Sequential(nn.Conv2d(1, 4, 5, stride=4), nn.ReLU(), nn.Flatten(), nn.Linear(196, 3)))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for epoch in range(1):
        for i, (img, label) in enumerate(loader):  #: LINE
            loss = nn.functional.cross_entropy(net(img), label)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if rank == 0 and i % 20 == 0:
                print(f"epoch {epoch} batch {i} loss {loss.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
