import statistics
import time

import torch

from losses import inspector_loss, loom_loss
from weave import Inspector, Loom, cloth


def main(steps=60, batch=16):
    torch.manual_seed(0)
    loom, inspector = Loom(), Inspector()
    weaver = torch.optim.Adam(loom.parameters(), lr=2e-4, betas=(0.5, 0.999), fused=True)
    judge = torch.optim.Adam(inspector.parameters(), lr=2e-4, betas=(0.5, 0.999), fused=True)
    real = cloth()
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = real[torch.randint(0, len(real), (batch,))]

        judge.zero_grad()
        seen = inspector_loss(loom, inspector, picked)
        seen.backward()
        judge.step()

        weaver.zero_grad()
        made = loom_loss(loom, inspector, batch)
        made.backward()
        weaver.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"inspector {seen.item():.6f} loom {made.item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
