import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler

from images import Images
from steptime import StepTime

STEPS = 62


class Stem(nn.Module):
    def __init__(self, c=20):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, c, 5, stride=2, padding=2), nn.BatchNorm2d(c), nn.ReLU(),
                                  nn.Conv2d(c, 2 * c, 3, padding=1), nn.BatchNorm2d(2 * c), nn.ReLU(),
                                  nn.Conv2d(2 * c, 2 * c, 3, padding=1), nn.BatchNorm2d(2 * c), nn.ReLU())
        self.head = nn.Linear(2 * c, 10)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DDP(Stem())
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    data = Images(2 * 16 * (STEPS + 6))
    loader = DataLoader(data, batch_size=16, sampler=DistributedSampler(data), num_workers=2, prefetch_factor=4)
    clock = StepTime()
    for step, (x, y) in enumerate(loader):
        if step == STEPS:
            break
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        clock.tick()
    if dist.get_rank() == 0:
        clock.report()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
