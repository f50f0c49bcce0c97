"""Multi-task network for road scenes on two ranks; eight numbers are averaged over the ranks in one message a step."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from pace import Pace

STEPS = 60
TASKS = ("lane", "light", "sign", "depth")


class Scene(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Conv2d(3, 32, 5, stride=2, padding=2), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
                                   nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten())
        self.heads = nn.ModuleList(nn.Linear(1024, 8) for _ in TASKS)

    def forward(self, x):
        h = self.trunk(x)
        return [head(h) for head in self.heads]


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DDP(Scene())
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    gen = torch.Generator().manual_seed(rank)
    pace = Pace()
    sums = torch.zeros(2 * len(TASKS))
    for step in range(STEPS):
        frames = torch.randn(10, 3, 48, 48, generator=gen)
        labels = torch.randint(0, 8, (10, len(TASKS)), generator=gen)
        outputs = model(frames)
        losses = [F.cross_entropy(o, labels[:, i]) for i, o in enumerate(outputs)]
        right = [(o.argmax(1) == labels[:, i]).float().mean() for i, o in enumerate(outputs)]
        opt.zero_grad()
        sum(losses).backward()
        numbers = torch.stack([v.detach() for v in losses + right])
        work = dist.all_reduce(numbers, async_op=True)
        opt.step()
        work.wait()
        sums += numbers / world
        if rank == 0 and step % 15 == 14:
            print(step + 1, {t: round(v, 3) for t, v in zip(TASKS, (sums / 15).tolist())})
        if step % 15 == 14:
            sums.zero_()
        pace.tick()
    if rank == 0:
        pace.report()
    dist.barrier()
    del model
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
