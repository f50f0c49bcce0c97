import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from steptime import StepTime

STEPS = 64


class Meter:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def add(self, value, n):
        self.total += value * n
        self.count += n


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(160, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 12)))
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(rank + 1)
    loss_meter, acc_meter = Meter(), Meter()
    clock = StepTime()
    for step in range(STEPS):
        x, y = torch.randn(896, 160), torch.randint(0, 12, (896,))
        logits = model(x)
        loss = nn.functional.cross_entropy(logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        loss_meter.add(loss.item(), len(y))
        acc_meter.add((logits.argmax(1) == y).float().mean().item(), len(y))
        clock.tick()
    if rank == 0:
        print(f"loss {loss_meter.total / loss_meter.count:.4f} acc {acc_meter.total / acc_meter.count:.4f}")
        clock.report()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
