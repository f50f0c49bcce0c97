import statistics
import tempfile
import time

import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter

from ocean import Surrogate, runs


def main():
    torch.manual_seed(0)
    x, y = runs(240)
    model = Surrogate()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    times = []
    with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as writer:
        for step in range(64):
            start = time.perf_counter()
            i = torch.randint(240, (8,))
            loss = nn.functional.mse_loss(model(x[i]), y[i])
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            writer.add_scalar("loss", loss.item(), step)
            writer.add_scalar("norm", norm.item(), step)
            if step == 32:
                writer.add_histogram("out", model.out.weight, step)
            times.append((time.perf_counter() - start) * 1e3)
    times = times[3:]
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
