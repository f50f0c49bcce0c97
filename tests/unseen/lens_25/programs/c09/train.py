import gc
import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F

from trams import DelayModel, journeys


def main(steps=60, batch=20):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    stops, delays = journeys()
    model = DelayModel()
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    torch.manual_seed(30 + rank)

    # No collection in the middle of a step, where it would hold up the other rank too.
    gc.disable()
    gc.collect()
    gc.freeze()
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, len(stops), (batch,))
        loss = F.l1_loss(model(stops[picked]), delays[picked])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        gc.collect()
        if step == 0:
            gc.freeze()
        times.append(1e3 * (time.perf_counter() - began))

    if rank == 0:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
