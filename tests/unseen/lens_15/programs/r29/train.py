import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from autoencoder import AutoEncoder
from preview import Preview


def photos(rank, count=800, size=32):
    g = torch.Generator().manual_seed(rank)
    coarse = torch.rand(count, 3, 6, 6, generator=g)
    return F.interpolate(coarse, size=(size, size), mode="bicubic").clamp(0, 1)


def main(steps=60, batch=24):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(AutoEncoder())
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    data = photos(rank)
    times = []
    with tempfile.TemporaryDirectory() as folder:
        preview = Preview(folder, every=1)
        for step in range(steps):
            start = time.perf_counter()
            images = data[torch.randint(len(data), (batch,))]
            restored = model(images)
            loss = F.l1_loss(restored, images) + 0.5 * F.mse_loss(restored, images)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if rank == 0:
                preview(step, images, restored)  #: LINE
            times.append(1e3 * (time.perf_counter() - start))
    if rank == 0:
        times = times[3:]
        print(f"loss {loss.item():.4f} on {os.environ['WORLD_SIZE']} ranks")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
    dist.destroy_process_group()


main()
