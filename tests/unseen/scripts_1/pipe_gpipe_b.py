import argparse
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.utils.data import DataLoader, Dataset


class Readings(Dataset):
    def __init__(self, n=96, d=10):
        g = torch.Generator().manual_seed(5)
        self.x = torch.randn(n, d, generator=g)
        self.y = self.x.cumsum(1)[:, -1:]
        self.x[6 * 8 + 3, 0] = float("inf")     # a glitch in the recording

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Front(torch.nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.lin = torch.nn.Linear(d, h)

    def forward(self, x):
        return torch.relu(self.lin(x))


class Back(torch.nn.Module):
    def __init__(self, h):
        super().__init__()
        self.lin = torch.nn.Linear(h, 1)

    def forward(self, h):
        return self.lin(h)


def main(args):
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    rank = dist.get_rank()
    torch.manual_seed(args.seed)
    module = Front(10, args.hidden) if rank == 0 else Back(args.hidden)
    stage = PipelineStage(module, rank, 2, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, args.micro, loss_fn=torch.nn.functional.mse_loss)
    opt = torch.optim.Adam(module.parameters(), lr=args.lr)
    loader = DataLoader(Readings(), batch_size=8, shuffle=False)

    for step, (x, y) in enumerate(loader):
        if not torch.isfinite(x).all():
            continue
        opt.zero_grad()
        if rank == 0:
            schedule.step(x)
        else:
            losses = []
            schedule.step(target=y, losses=losses)
            print(f"batch {step}: {sum(l.item() for l in losses) / len(losses):.4f}")
        opt.step()

    norm = sum(p.detach().pow(2).sum() for p in module.parameters())
    dist.all_reduce(norm)
    if rank == 0:
        print("weight norm", norm.sqrt().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--hidden", type=int, default=14)
    ap.add_argument("--micro", type=int, default=2)
    ap.add_argument("--lr", type=float, default=1e-2)
    ap.add_argument("--seed", type=int, default=0)
    main(ap.parse_args())
