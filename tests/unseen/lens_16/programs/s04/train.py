import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

from segments import Gestures, recordings


class Meter:
    """Hits and rows of every class stay in one tensor and are summed over the ranks now and then."""

    def __init__(self, classes):
        self.table = torch.zeros(3, classes)

    def add(self, logits, labels, loss):
        hit = (logits.argmax(1) == labels).float()
        self.table[0].index_add_(0, labels, hit)
        self.table[1].index_add_(0, labels, torch.ones_like(hit))
        self.table[2, 0] += loss

    def gather(self):
        dist.all_reduce(self.table)
        hits, rows, rest = self.table
        result = (hits.sum() / rows.sum()).item(), (hits / rows.clamp(min=1)).min().item(), rest[0].item()
        self.table.zero_()
        return result


def main(steps=60, batch=32, report_every=10):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    x, y = recordings(rank)
    model = DDP(Gestures())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    meter, times = Meter(14), []
    for step in range(steps):
        began = time.perf_counter()
        rows = torch.randint(0, len(x), (batch,))
        logits = model(x[rows])
        loss = F.cross_entropy(logits, y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meter.add(logits.detach(), y[rows], loss.detach())
        if step % report_every == report_every - 1:
            share, worst, total = meter.gather()
            if rank == 0:
                print(f"step {step + 1}: {share:.3f} right, worst class {worst:.3f}, loss {total:.2f}")
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
