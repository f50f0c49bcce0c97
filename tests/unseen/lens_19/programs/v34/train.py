import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F

from launch import begin
from proteins import Proteins, chains


def main(steps=60, batch=16):
    rank, world = begin()
    model = Proteins(world)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    known = chains()
    torch.manual_seed(1)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        chain = known[torch.randint(0, len(known), (batch,))]
        hidden = torch.rand(chain.shape) < 0.15
        logits = model(chain.masked_fill(hidden, 25))
        loss = F.cross_entropy(logits.flatten(0, 1), chain.masked_fill(~hidden, -100).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.5f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
