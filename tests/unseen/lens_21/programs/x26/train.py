import statistics
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from pieces import train_record
from tremor import Tremor, records


def main(steps=60, batch=32, pieces=3):
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(Tremor(), gradient_as_bucket_view=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, fused=True)
    torch.manual_seed(1 + dist.get_rank())
    written = records()
    times = []
    for step in range(steps):
        began = time.perf_counter()
        loss = train_record(model, optimizer, written[torch.randint(0, len(written), (batch,))], pieces)
        times.append(1e3 * (time.perf_counter() - began))
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
