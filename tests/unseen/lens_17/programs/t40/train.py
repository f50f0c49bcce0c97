import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F

from fraud import FraudNet, average_gradients, same_start


def main(steps=60, batch=256):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = FraudNet()
    same_start(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    g = torch.Generator().manual_seed(rank)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        numbers = torch.randn(batch, 40, generator=g)
        categories = torch.randint(0, 50, (batch, 6), generator=g)
        fraud = ((categories[:, 0] < 8) & (numbers[:, 0] > 0.5)).float()
        loss = F.binary_cross_entropy_with_logits(model(numbers, categories), fraud)
        optimizer.zero_grad()
        loss.backward()
        average_gradients(model)
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.4f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
