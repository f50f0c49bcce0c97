import logging
import statistics
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from turbines import WearModel, criterion, recordings


def main(steps=60, batch=32):
    logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    shakes, wear = recordings()
    model = DistributedDataParallel(WearModel(), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-4, fused=True)
    torch.manual_seed(rank)

    times, began = [], time.perf_counter()
    for step in range(steps):
        picked = torch.randint(0, len(wear), (batch,))
        loss = criterion(model(shakes[picked]), wear[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        now = time.perf_counter()
        times.append(1e3 * (now - began))
        began = now

    if rank == 0:
        logging.info("loss %.6f", loss.item())
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
