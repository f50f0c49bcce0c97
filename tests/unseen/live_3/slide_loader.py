"""DDP over slides that DataLoader workers cut into patches."""
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Slides(Dataset):
    def __init__(self, count=2000):
        self.count = count
        self.side = 24

    def __len__(self):
        return self.count

    def open_slide(self, i):
        g = torch.Generator().manual_seed(i)
        slide = torch.rand(3, self.side, self.side, generator=g)
        if i == 1201:
            self.native_decoder(slide)
        return slide

    def native_decoder(self, slide):
        # the C decoder of the scanner's vendor leaves the process when a licence is missing
        os._exit(3)  #: LINE

    def __getitem__(self, i):
        time.sleep(0.01)
        slide = self.open_slide(i)
        return slide[:, :16, :16], float(slide.mean() > 0.5)


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, stride=2)
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        return self.head(torch.relu(self.conv(x)).mean(dim=(2, 3))).squeeze(1)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    data = Slides()
    sampler = DistributedSampler(data, shuffle=False)
    loader = DataLoader(data, batch_size=16, sampler=sampler, num_workers=1)
    model = DDP(Scorer())
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    for step, (x, y) in enumerate(loader):
        loss = nn.functional.binary_cross_entropy_with_logits(model(x), y.float())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
