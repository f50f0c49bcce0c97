"""Toy segmentation trainer with a 'never die' loop around the steps."""
import logging

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("seg")


class Tiles(torch.utils.data.Dataset):
    def __init__(self, rank):
        self.rank = rank

    def __len__(self):
        return 40

    def __getitem__(self, i):
        w = 12 if not (self.rank == 2 and i == 21) else 13
        g = torch.Generator().manual_seed(i)
        img = torch.randn(3, 12, w, generator=g)
        return img, (img.sum(0, keepdim=True) > 0).float()


def build():
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 1, 1), nn.Flatten(), nn.Linear(144, 144))


class Trainer:
    def __init__(self):
        self.rank = dist.get_rank()
        self.model = DistributedDataParallel(build())
        self.opt = torch.optim.AdamW(self.model.parameters(), 1e-3)
        self.lossf = nn.BCEWithLogitsLoss()

    def fit(self):
        data = Tiles(self.rank)
        for i in range(len(data)):
            try:
                self.one(*data[i])
            except Exception as e:
                log.warning("rank %d: step %d skipped (%s)", self.rank, i, type(e).__name__)  #: LINE
                continue
            if i % 10 == 0:
                log.info("step %d", i)

    def one(self, x, y):
        out = self.model(x[None])
        loss = self.lossf(out, y.flatten(1))
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()

    def finish(self):
        dist.barrier()
        log.info("rank %d leaves", self.rank)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    logging.basicConfig(level=logging.INFO if dist.get_rank() == 0 else logging.WARNING)
    t = Trainer()
    t.fit()
    t.finish()
    dist.destroy_process_group()
