import os
import shutil
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

from nowcast import Nowcast, rain
from preview import save_preview

PAST, SIZE, BATCH = 5, 64, 6


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(100 + rank)
    movies = rain(BATCH * 10, PAST + 1, SIZE, g)
    model = DDP(Nowcast(PAST))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    folder = tempfile.mkdtemp()
    times = []
    for step in range(64):
        start = time.perf_counter()
        chunk = movies[step % 10 * BATCH:(step % 10 + 1) * BATCH]
        x, y = chunk[:, :PAST], chunk[:, PAST:]
        prediction = model(x)
        loss = torch.nn.functional.mse_loss(prediction, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step == 63:
            save_preview(os.path.join(folder, "latest.png"), y, prediction.detach())
        times.append((time.perf_counter() - start) * 1000)
    shutil.rmtree(folder)
    if rank == 0:
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step")
    del model, optimizer
    dist.destroy_process_group()


main()
