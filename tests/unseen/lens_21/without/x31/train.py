import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional as F

from enzymes import Enzyme, measured, split
from watch import gradient_norm


def main(steps=60, batch=96):
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    model = split(Enzyme(), mesh)
    x, y = measured()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    times, norms = [], []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, len(x), (batch,))
        loss = F.mse_loss(model(x[picked]), y[picked])
        optimizer.zero_grad()
        loss.backward()
        norms.append(gradient_norm(model))
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.6f}, largest gradient {torch.stack(norms).max().item():.4f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
