import argparse
import collections

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Meter:
    """Sums named values; `flush` combines them over the processes.

    With `everywhere` all processes get the result, otherwise only process 0.
    """

    def __init__(self, everywhere=False):
        self.everywhere = everywhere
        self.sums = collections.OrderedDict()
        self.count = 0

    def add(self, **values):
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + float(value)
        self.count += 1

    def flush(self):
        packed = torch.tensor(list(self.sums.values()) + [float(self.count)])
        if self.everywhere:
            dist.all_reduce(packed)
        else:
            dist.reduce(packed, dst=0)
        names, n = list(self.sums), packed[-1].item()
        self.sums.clear()
        self.count = 0
        return {name: packed[i].item() / n for i, name in enumerate(names)}


def regression(rank, batch):
    g = torch.Generator().manual_seed(17 + rank)
    coef = torch.arange(1.0, 9.0)
    while True:
        x = torch.randn(batch, 8, generator=g)
        yield x, (x @ coef)[:, None] / 8


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=12)
    ap.add_argument("--log-every", type=int, default=4)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--log-all", action="store_true", help="let every process print its meters")
    args = ap.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)
    model = DistributedDataParallel(nn.Linear(8, 1))
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    meter = Meter(everywhere=args.log_all or rank == 0)
    for step, (x, y) in zip(range(1, args.steps + 1), regression(rank, args.batch)):
        loss = nn.functional.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        gnorm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        meter.add(loss=loss, gnorm=gnorm)
        if step % args.log_every == 0:
            values = meter.flush()
            if rank == 0 or args.log_all:
                print(step, {k: round(v, 4) for k, v in values.items()}, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
