import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F

from norms import Watch
from wind import Wind, days


def main(steps=60, batch=896):
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    model = fully_shard(Wind(), mesh=mesh, reshard_after_forward=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    morning, noon = days(dist.get_rank())
    watch = Watch()
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, len(morning), (batch,))
        loss = F.mse_loss(model(morning[picked]), noon[picked])
        optimizer.zero_grad()
        loss.backward()
        watch.look(model, step)
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.6f} {watch.largest}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
