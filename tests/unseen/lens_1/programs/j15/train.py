import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset


def make_split(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 1, 20, 20, generator=g)
    return TensorDataset(x, (x.mean((1, 2, 3)) > 0).long())


def make_model():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(512, 2)
    )


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    hit = torch.zeros(2)
    for x, y in loader:
        hit[0] += (model(x).argmax(1) == y).sum()
        hit[1] += len(y)
    dist.all_reduce(hit)
    model.train()
    return (hit[0] / hit[1]).item()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    train = DataLoader(make_split(28 * 64, rank), batch_size=64, shuffle=True)
    valid = DataLoader(make_split(640, 99), batch_size=128)
    net = make_model()
    ddp = DDP(net)
    opt = torch.optim.AdamW(ddp.parameters(), lr=1e-3)
    t0 = None
    for step, (x, y) in enumerate(train):
        if step == 3:
            t0 = time.time()
        loss = nn.functional.cross_entropy(ddp(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        acc = evaluate(net, valid)  #: LINE
        if rank == 0 and step % 7 == 0:
            print(f"step {step} acc {acc:.3f}", flush=True)
    if rank == 0:
        print(f"{step + 1} steps {(time.time() - t0) * 1000 / (step - 2):.2f} ms/step", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
