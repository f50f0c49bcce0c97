import os
import statistics
import tempfile
import time

import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader

from seismic import Picker, Traces, write


def main(steps=60, batch=36):
    torch.manual_seed(0)
    model = Picker()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    times = []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "traces.bin")
        write(path)
        loader = iter(DataLoader(Traces(path), batch, shuffle=True, drop_last=True))
        for step in range(steps):
            began = time.perf_counter()
            traces, onset = next(loader)
            loss = F.smooth_l1_loss(model(traces), onset, beta=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.4f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
