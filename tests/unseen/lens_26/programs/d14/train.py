import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional as F

from board import Board
from wafers import Yield, split, wafers


def main(steps=60, batch=384):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)  # the same data and weights on both ranks
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    seen, good = wafers()
    model = split(Yield(), mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    rates = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    with tempfile.TemporaryDirectory() as folder:
        board = Board(os.path.join(folder, "board.csv")) if rank == 0 else None
        times, began = [], time.perf_counter()
        for step in range(steps):
            picked = torch.randint(0, len(seen), (batch,))
            loss = F.mse_loss(model(seen[picked]), good[picked])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rates.step()
            if board:
                board.after_step(step, loss, rates.get_last_lr()[0], model)
            now = time.perf_counter()
            times.append(1e3 * (now - began))
            began = now
        if board:
            board.close()
    if rank == 0:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
