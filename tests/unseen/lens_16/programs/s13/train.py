import statistics
import time

import torch
from torch.nn import functional as F
from torchmetrics import MeanMetric

from keypoints import Hourglass, drawings


@torch.no_grad()
def validate(model, images, heat, batch=24):
    model.eval()
    error = MeanMetric()
    for k in range(0, len(images), batch):
        error.update(F.mse_loss(model(images[k:k + batch]), heat[k:k + batch]))
    model.train()
    return error.compute().item()


def main(steps=60, batch=24, check_every=30):
    torch.manual_seed(0)
    images, heat = drawings(400)
    held_out = drawings(48, seed=1)
    model, running = Hourglass(), MeanMetric()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        rows = torch.randint(0, len(images), (batch,))
        loss = F.mse_loss(model(images[rows]), heat[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running.update(loss.detach())
        if step % check_every == check_every - 1:
            print(f"step {step + 1}: {running.compute().item():.5f}, held out {validate(model, *held_out):.5f}")
            running.reset()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step")


if __name__ == "__main__":
    main()
