import statistics
import time

import torch
from torch.nn import functional as F

from sparse import SparseNet

# else it gives up with a warning about recompile_limit
torch._dynamo.config.recompile_limit = 512
torch._dynamo.config.accumulated_recompile_limit = 4096


def batches(steps, size, features=64, classes=20):
    mix = torch.randn(features, classes)
    for _ in range(steps):
        x = torch.randn(size, features)
        yield x, (x @ mix).argmax(1)


def main(steps=60, size=640, first=400, every=4, less=20):
    torch.manual_seed(0)
    model = SparseNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    times = []
    for step, (x, y) in enumerate(batches(steps, size)):
        began = time.perf_counter()
        if step % every == 0:
            model.top.keep = first - less * (step // every)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.4f}, {model.top.keep} units kept")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step")


if __name__ == "__main__":
    main()
