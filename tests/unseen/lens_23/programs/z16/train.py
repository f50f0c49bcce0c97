import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional as F

from gauge import Gauge
from kilns import Kiln, firings


def main(steps=60, batch=160):
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(6)
    heat, cracks = firings()
    model = Kiln()
    plan = {}
    for place in range(len(model.stages)):
        plan[f"stages.{place}.wide"] = ColwiseParallel()
        plan[f"stages.{place}.narrow"] = RowwiseParallel()
    parallelize_module(model, mesh, plan)
    split = [p for stage in model.stages for part in (stage.wide, stage.narrow) for p in part.parameters()]
    whole = [p for part in (model.enter, model.leave, *(stage.norm for stage in model.stages)) for p in part.parameters()]
    optimizer = torch.optim.Adam([{"params": split}, {"params": whole}], lr=8e-4, fused=True)
    gauge = Gauge(model)
    times, began = [], time.perf_counter()
    for step in range(steps):
        picked = torch.randint(0, len(heat), (batch,))
        loss = F.binary_cross_entropy_with_logits(model(heat[picked]), cracks[picked])
        optimizer.zero_grad()
        loss.backward()
        gauge.look(step)
        optimizer.step()
        now = time.perf_counter()
        times.append(1e3 * (now - began))
        began = now
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.6f} after {len(times)} steps")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
