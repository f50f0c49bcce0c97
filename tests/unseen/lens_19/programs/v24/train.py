import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F

from soil import Soil, probes


def main(steps=60, batch=112, parts=4):
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    model = fully_shard(Soil(), mesh=mesh, reshard_after_forward=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    light, carbon = probes(dist.get_rank())
    times = []
    for step in range(steps):
        began = time.perf_counter()
        optimizer.zero_grad()
        for part in range(parts):
            last = part == parts - 1
            model.set_requires_gradient_sync(last)
            model.set_reshard_after_backward(last)
            picked = torch.randint(0, len(carbon), (batch,))
            loss = F.mse_loss(model(light[picked])[:, 0], carbon[picked]) / parts
            loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
