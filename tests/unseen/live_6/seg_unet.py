import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel


def block(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU())


class SmallUNet(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.d1, self.d2 = block(1, 8), block(8, 16)
        self.u1 = block(24, 8)
        self.head = nn.Conv2d(8, classes, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        return self.head(self.u1(torch.cat([a, F.interpolate(b, scale_factor=2)], 1)))


class Slices(torch.utils.data.Dataset):
    """Fake CT slices with a bright organ in them."""

    def __init__(self, n, seed):
        self.n, self.seed = n, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 100003 + i)
        img = torch.rand(1, 32, 32, generator=g)
        mask = (img[0] * 4).long().clamp(max=3)
        return img, mask


@torch.no_grad()
def validate(model, loader):
    model.eval()
    inter, union = torch.zeros(1), torch.zeros(1)
    for img, mask in loader:
        pred = model(img).argmax(1)
        inter += ((pred == mask) & (mask > 0)).sum()
        union += ((pred > 0) | (mask > 0)).sum()
    for part in (inter, union):
        dist.all_reduce(part)  #: LINE
    model.train()
    return (inter / union.clamp(min=1)).item()


def main():
    dist.init_process_group(backend="gloo")
    rank = dist.get_rank()
    train = Slices(3600, 1)
    sampler = torch.utils.data.DistributedSampler(train)
    loader = torch.utils.data.DataLoader(train, batch_size=8, sampler=sampler)
    val_loader = torch.utils.data.DataLoader(Slices(160, 2), batch_size=8)
    torch.manual_seed(0)
    model = DistributedDataParallel(SmallUNet())
    optim = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    best, it = 0.0, 0
    for epoch in range(4):
        sampler.set_epoch(epoch)
        for img, mask in loader:
            optim.zero_grad(set_to_none=True)
            F.cross_entropy(model(img), mask).backward()
            optim.step()
            it += 1
            if it % 60 == 0 and rank == 0:
                iou = validate(model.module, val_loader)  #: LINE
                print(f"it {it} iou {iou:.3f}", flush=True)
                if iou > best:
                    best = iou
                    torch.save(model.module.state_dict(), os.devnull)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
