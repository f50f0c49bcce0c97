import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import BatchSampler, DataLoader, Dataset, DistributedSampler

from desk import Desk


class Shells(Dataset):
    """Outlines of shells as 48 radii, in shared memory; takes a list of places, gives a batch."""

    def __init__(self, count=8000, radii=48):
        self.kind = torch.randint(0, 15, (count,)).share_memory_()
        self.radii = (torch.randn(15, radii)[self.kind] + torch.randn(count, radii)).share_memory_()

    def __len__(self):
        return len(self.kind)

    def __getitem__(self, picked):
        return self.radii[picked], self.kind[picked]


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.part = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, x):
        return x + self.part(x)


def main(steps=60, batch=192):
    desk = Desk()
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    shells = Shells()
    net = nn.Sequential(nn.Linear(48, 448), *(Residual(448) for _ in range(3)), nn.Linear(448, 15))
    model = DistributedDataParallel(net, gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, fused=True)
    picks = BatchSampler(DistributedSampler(shells, seed=7), batch, drop_last=True)
    times, epoch = [], 0
    while len(times) < steps:
        picks.sampler.set_epoch(epoch)
        began = time.perf_counter()
        for radii, kind in DataLoader(shells, batch_size=None, sampler=picks):
            board = desk.look()
            radii = radii + board["noise"] * torch.randn_like(radii)
            loss = F.cross_entropy(model(radii), kind)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            now = time.perf_counter()
            times.append(1e3 * (now - began))
            began = now
            if len(times) == steps or board["pause"]:
                break
        epoch += 1
    desk.close()
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.6f} after {len(times)} steps")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
