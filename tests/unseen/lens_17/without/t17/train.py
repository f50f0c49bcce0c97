import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F

from sync import Averager
from weather import Archive, RadarNet, StationNet


def main(steps=60, hours=30):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    radar, stations = RadarNet(), StationNet()
    optimizer = torch.optim.AdamW([*radar.parameters(), *stations.parameters()], lr=1e-3)
    archive, averager = Archive(rank), Averager()
    times = []
    for step in range(steps):
        began = time.perf_counter()
        scans, rain, readings, target = archive.hours(hours)
        optimizer.zero_grad()
        loss = F.mse_loss(radar(scans), rain) * len(scans) / hours
        loss.backward()
        averager.start(radar.parameters())
        other = F.mse_loss(stations(readings), target) * len(readings) / hours
        other.backward()
        averager.start(stations.parameters())
        averager.finish()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"radar {loss.item():.4f} stations {other.item():.4f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
