import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F

from chants import ChantModel, Chants
from distributed import average_gradients, broadcast_weights


def main(steps=60, batch=24):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = ChantModel()
    broadcast_weights(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
    chants = Chants(rank)
    times = []
    for step in range(steps):
        t0 = time.perf_counter()
        notes, mode = chants.batch(batch)
        loss = F.cross_entropy(model(notes), mode)
        optimizer.zero_grad()
        loss.backward()
        average_gradients(model)
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - t0))
    if rank == 0:
        print(f"last loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
