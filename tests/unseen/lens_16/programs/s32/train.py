import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

from metrics import LabelMetrics
from tags import MultiLabel, batch


def main(steps=60, size=40, labels=40):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    pattern = torch.randn(labels, 3, 32, 32)
    g = torch.Generator().manual_seed(100 + rank)
    model = DDP(MultiLabel(labels))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    metrics = LabelMetrics([f"label_{k:02d}" for k in range(labels)])
    times = []
    for step in range(steps):
        began = time.perf_counter()
        x, y = batch(size, pattern, g)
        logits = model(x)
        loss = F.binary_cross_entropy_with_logits(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        metrics.update(logits.detach(), y)
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.4f}, F1 {metrics.f1():.4f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
