import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F

from parallel import distributed
from turbine import Turbine, log


def main(steps=60, batch=320):
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model, optimizer = distributed(Turbine(), 1e-3)
    torch.manual_seed(1 + dist.get_rank())
    readings, wear = log()
    ends = [time.perf_counter()]
    for step in range(steps):
        picked = torch.randint(0, len(readings), (batch,))
        loss = F.mse_loss(model(readings[picked]), wear[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ends.append(time.perf_counter())
    if dist.get_rank() == 0:
        times = [1e3 * (end - begin) for begin, end in zip(ends, ends[1:])]
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
