import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F

from inks import Inks, spectra
from shared import shared


def main(steps=60, batch=640):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model, optimizer = shared(Inks(), 1e-3)
    torch.manual_seed(1 + rank)
    inks = spectra()
    times = []
    for step in range(steps):
        began = time.perf_counter()
        x = inks[torch.randint(0, len(inks), (batch,))]
        loss = F.mse_loss(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
