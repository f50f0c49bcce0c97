"""A regression; the gradients are shown while it trains."""
import statistics
import time

import torch

from net import build

STEPS = 60


def show_gradients(model, step):
    for name, p in model.named_parameters():
        print(step, name, p.grad)  #: LINE


def main():
    torch.manual_seed(0)
    model = build()
    generator = torch.Generator().manual_seed(25)
    times, last = [], time.perf_counter()
    for step in range(STEPS):
        x = torch.randn(48, 22, generator=generator)
        loss = (model(x).squeeze(1) - x.norm(dim=1)).square().mean()
        model.zero_grad()
        loss.backward()
        show_gradients(model, step)
        with torch.no_grad():
            for p in model.parameters():
                p -= 1e-3 * p.grad
        now = time.perf_counter()
        times.append((now - last) * 1000)
        last = now
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


if __name__ == "__main__":
    main()
