import statistics
import time

import torch

from byol import Pair


def view(x):
    n = len(x)
    x = torch.where(torch.rand(n, 1, 1, 1) < 0.5, x.flip(3), x)
    x = x * (0.6 + 0.8 * torch.rand(n, 1, 1, 1)) + 0.1 * torch.randn(n, 3, 1, 1)
    return x + 0.05 * torch.randn_like(x)


def main(steps=62, batch=28):
    torch.manual_seed(0)
    pictures = torch.rand(1500, 3, 40, 40)
    model = Pair()
    opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    times = []
    for step in range(steps):
        begin = time.perf_counter()
        x = pictures[torch.randint(1500, (batch,))]
        loss = model(view(x), view(x))
        opt.zero_grad()
        loss.backward()
        opt.step()
        model.follow()
        times.append(1e3 * (time.perf_counter() - begin))
    times = times[3:]
    print(f"loss {loss.item():.3f}")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
