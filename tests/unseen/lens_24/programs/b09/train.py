import os
import statistics
import tempfile
import time

import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, RandomSampler

from quakes import Onset, Traces, archive


def main(steps=60, batch=20):
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "traces.i16.gz")
        traces = Traces(path, archive(path))
        loader = DataLoader(traces, batch, sampler=RandomSampler(traces, replacement=True, num_samples=steps * batch))
        model = Onset()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
        stamps = [time.perf_counter()]
        for trace, onset in loader:
            loss = F.l1_loss(model(trace), onset)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            stamps.append(time.perf_counter())
    times = [1e3 * (end - begin) for begin, end in zip(stamps, stamps[1:])][3:]
    print(f"loss {loss.item():.6f} after {len(stamps) - 1} steps")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step mean")


if __name__ == "__main__":
    main()
