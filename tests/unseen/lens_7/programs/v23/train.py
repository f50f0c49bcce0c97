import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from steptime import StepTime
from tracker import Tracker

STEPS = 64


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(200, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1)))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    torch.manual_seed(rank + 1)
    tracker = Tracker() if rank == 0 else None
    clock = StepTime()
    for step in range(STEPS):
        x = torch.randn(640, 200)
        y = (x[:, 0] > 0).float()
        logits = model(x).squeeze(-1)
        loss = nn.functional.binary_cross_entropy_with_logits(logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0:
            tracker.log(step, {"loss": loss.item(), "lr": opt.param_groups[0]["lr"]})  #: LINE
        clock.tick()
    if rank == 0:
        clock.report()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
