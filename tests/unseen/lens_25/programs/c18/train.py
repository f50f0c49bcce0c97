import logging
import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional as F

from mazes import Solver, mazes, split


def main(steps=60, batch=160):
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    walls, ways = mazes()
    model = split(Solver(), mesh)
    whole = [p for name, p in model.named_parameters() if ".up." not in name and ".down." not in name]
    parts = [p for name, p in model.named_parameters() if ".up." in name or ".down." in name]
    optimizers = [torch.optim.AdamW(group, lr=4e-4, fused=True) for group in (whole, parts)]

    times, began = [], time.perf_counter()
    for step in range(steps):
        picked = torch.randint(0, len(walls), (batch,))
        loss = F.mse_loss(model(walls[picked]), ways[picked])
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        logging.debug("step %d loss %s", step, loss)
        now = time.perf_counter()
        times.append(1e3 * (now - began))
        began = now

    if dist.get_rank() == 0:
        logging.info("loss %.6f", loss.item())
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
