import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Patience:
    """Stop when the mean validation loss of all ranks has not improved for a while."""

    def __init__(self, n):
        self.n, self.best, self.since = n, float("inf"), 0

    def stop(self, value):
        t = torch.tensor([value])
        dist.all_reduce(t)
        mean = t.item() / dist.get_world_size()
        if mean < self.best - 1e-4:
            self.best, self.since = mean, 0
        else:
            self.since += 1
        return self.since >= self.n


def everyone_finite(loss):
    bad = torch.tensor([0 if torch.isfinite(loss) else 1])
    dist.all_reduce(bad, op=dist.ReduceOp.MAX)
    return bad.item() == 0


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(20, 50), nn.Tanh(), nn.Linear(50, 1)))
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    g = torch.Generator().manual_seed(7 + rank)
    vx = torch.randn(200, 20, generator=g)
    patience, dropped = Patience(5), 0
    for step in range(4000):
        x = torch.randn(16, 20, generator=g)
        if (step * 7 + rank * 3) % 101 == 0:
            x[0, 0] = float("nan")
        loss = nn.functional.mse_loss(model(x), x[:, :1].sin())
        if not everyone_finite(loss):
            if not torch.isfinite(loss):
                print(f"WARNING rank {rank} step {step}: loss is nan, all ranks leave this batch out", flush=True)
            dropped += 1
            opt.zero_grad()
            continue
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 25 == 24:
            with torch.no_grad():
                val = nn.functional.mse_loss(model.module(vx), vx[:, :1].sin()).item()
            if patience.stop(val):
                break
    print(f"rank {rank}: stopped at {step}, best {patience.best:.4f}, {dropped} batches left out", flush=True)
    del model
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
