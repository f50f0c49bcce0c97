import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F

from hives import Hum, share_out, record


def main(steps=60, batch=8):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    sounds, moods = record()
    model = Hum()
    share_out(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    picker = torch.Generator().manual_seed(rank)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(len(sounds), (batch,), generator=picker)
        loss = F.cross_entropy(model(sounds[picked]), moods[picked])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
