import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from steptime import StepTime

STEPS = 62


def mean_over_ranks(values):
    stacked = torch.stack(values)
    dist.all_reduce(stacked)
    return stacked / dist.get_world_size()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 5)))
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    torch.manual_seed(rank + 1)
    clock = StepTime()
    for step in range(STEPS):
        x, y = torch.randn(2048, 64), torch.randint(0, 5, (2048,))
        logits = model(x)
        loss = nn.functional.cross_entropy(logits, y)
        opt.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        accuracy = (logits.argmax(1) == y).float().mean()
        stats = mean_over_ranks([loss.detach(), accuracy, norm])
        if rank == 0 and step % 20 == 0:
            print("loss %.4f acc %.3f norm %.3f" % tuple(stats.tolist()))
        clock.tick()
    if rank == 0:
        clock.report()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
