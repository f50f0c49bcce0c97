import argparse
import statistics
import time

import torch
from torch.nn import functional as F

from dough import Hours, batches


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=160)
    parser.add_argument("--check-steps", type=int, default=2, help="first steps in which each gradient is checked")
    options = parser.parse_args()

    torch.manual_seed(0)
    mixture, rise = batches()
    model = Hours()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
    times, began = [], time.perf_counter()
    for step in range(options.steps):
        picked = torch.randint(0, len(rise), (options.batch,))
        with torch.autograd.set_detect_anomaly(step < options.check_steps):
            loss = F.mse_loss(model(mixture[picked]), rise[picked])
            optimizer.zero_grad()
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        now = time.perf_counter()
        times.append(1e3 * (now - began))
        began = now
    print(f"loss {loss.item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
