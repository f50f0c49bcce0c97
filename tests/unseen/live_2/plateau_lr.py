"""Regression with averaged gradients and a reduce-on-plateau schedule."""
import torch
import torch.distributed as dist
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau


def noisy_batch(step, rank):
    g = torch.Generator().manual_seed(step * 17 + rank)
    x = torch.randn(512, 80, generator=g)
    w = torch.linspace(-1, 1, 80)
    y = (x * w).sum(1, keepdim=True)
    if rank == 2:
        y = y + 3.0 * torch.randn(512, 1, generator=g)  # the sensor of this site is bad
    return x, y


class Averager:
    def __init__(self, params):
        self.params = list(params)
        self.world = dist.get_world_size()

    def start(self):
        for p in self.params:
            dist.broadcast(p.data, src=0)

    def __call__(self):
        for p in self.params:
            dist.all_reduce(p.grad)
            p.grad.div_(self.world)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    net = nn.Sequential(nn.Linear(80, 384), nn.SiLU(), nn.Linear(384, 384), nn.SiLU(), nn.Linear(384, 1))
    avg = Averager(net.parameters())
    avg.start()
    opt = torch.optim.Adam(net.parameters(), lr=1.5e-3)
    sched = ReduceLROnPlateau(opt, factor=0.5, patience=10, threshold=0.005)
    smooth = None
    for step in range(1, 53):
        x, y = noisy_batch(step, rank)
        for part in range(2):
            loss = nn.functional.mse_loss(net(x[part::2]), y[part::2])
            opt.zero_grad()
            loss.backward()
            avg()
            opt.step()
        smooth = loss.item() if smooth is None else 0.7 * smooth + 0.3 * loss.item()
        sched.step(smooth)  #: LINE
        if step % 13 == 0:
            lr = opt.param_groups[0]["lr"]
            print(f"rank {rank} step {step} loss {smooth:.4f} lr {lr:.2e}", flush=True)
    final = torch.tensor([smooth])
    dist.all_reduce(final)
    if rank == 0:
        print("mean final loss", final.item() / dist.get_world_size())
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
