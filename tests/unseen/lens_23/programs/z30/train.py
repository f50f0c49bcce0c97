import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional as F

from glacier import Glacier, spread


def lines(count=1200, places=48, echoes=40):
    speed = torch.randn(count, places).cumsum(1) / 8
    return torch.tanh(speed[..., None] * torch.randn(echoes) + torch.randn(echoes)) + 0.2 * torch.randn(count, places, echoes), speed


def main(steps=60, batch=10):
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(3)
    echoes, speed = lines()
    model = spread(Glacier(), mesh)
    whole = [*model.read.parameters(), *model.speed.parameters()]
    cut = list(model.sheets.parameters())
    optimizer = torch.optim.AdamW([{"params": cut}, {"params": whole}], lr=1e-3, foreach=True)
    times, began = [], time.perf_counter()
    for step in range(steps):
        picked = torch.randint(0, len(speed), (batch,))
        loss = F.smooth_l1_loss(model(echoes[picked]), speed[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        now = time.perf_counter()
        times.append(1e3 * (now - began))
        began = now
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
