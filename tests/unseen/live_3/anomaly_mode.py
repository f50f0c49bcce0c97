"""DDP; a replica that has met a large loss looks more closely at its gradients."""
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS = 45


class Watch:
    def __init__(self, rank):
        self.rank = rank
        self.close = False

    def note(self, loss):
        if loss > 60.0:
            self.close = True  # stays on: a large loss seldom comes alone

    def look(self, model):
        if not self.close:
            return 0.0
        worst = 0.0
        for p in model.parameters():
            for value in p.grad.flatten()[:6000].tolist():
                worst = max(worst, abs(float(torch.tensor(value).mul(1.0).abs().sqrt().square())))  #: LINE
        return worst


def batch(step, rank):
    g = torch.Generator().manual_seed(step * 4 + rank)
    x = torch.randn(32, 64, generator=g)
    y = x[:, :1] * 2
    if rank == 3 and step == 15:
        y = y * 20
    return x, y


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.ReLU()) for _ in range(8)], nn.Linear(64, 1)))
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    watch = Watch(rank)
    begin = time.time()
    for step in range(STEPS):
        x, y = batch(step, rank)
        time.sleep(0.1)
        loss = nn.functional.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        watch.note(loss.item())
        watch.look(model)
        opt.step()
        if rank == 0 and step % 5 == 0:
            print(f"step {step} after {time.time() - begin:.1f} s loss {loss.item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
