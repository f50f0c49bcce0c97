import statistics
import time

import torch

from tasks import Rider, without_conflict


def rides(count=9000, facts=96):
    seen = torch.randn(count, facts)
    minutes = (seen @ torch.randn(facts, 4)).tanh().sum(1) + 0.1 * torch.randn(count)
    off = (seen[:, :8].sum(1) - minutes + torch.randn(count) > 1).float()
    return seen, minutes, off


def main(steps=60, batch=224):
    torch.manual_seed(7)
    data = rides()
    model = Rider()
    trunk = list(model.trunk.parameters())
    heads = [list(model.minutes.parameters()), list(model.off.parameters())]
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, len(data[0]), (batch,))
        first, second = model.losses(*(column[picked] for column in data))
        without_conflict(first, second, trunk, heads)
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"losses {first.item():.6f} {second.item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
