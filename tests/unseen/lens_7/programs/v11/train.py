import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from steptime import StepTime
from tracker import Tracker

STEPS = 62


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Conv1d(4, 48, 7, padding=3), nn.ReLU(), nn.Conv1d(48, 48, 7, padding=3), nn.ReLU(),
                              nn.AdaptiveAvgPool1d(8), nn.Flatten(), nn.Linear(384, 6)))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    torch.manual_seed(rank + 1)
    tracker = Tracker() if rank == 0 else None
    clock = StepTime()
    for step in range(STEPS):
        x, y = torch.randn(28, 4, 400), torch.randint(0, 6, (28,))
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if tracker:
            tracker.log(step, {"loss": loss.item(), "lr": opt.param_groups[0]["lr"]})
        clock.tick()
    if rank == 0:
        clock.report()
        tracker.close()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
