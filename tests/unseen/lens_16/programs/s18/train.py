import statistics
import time

import torch
from torch.nn import functional as F

from denoiser import Denoiser, noised
from guard import NanGuard


def main(steps=60, batch=96):
    torch.manual_seed(0)
    base = torch.randn(16, 256)
    model = Denoiser()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
    guard, times = NanGuard(model, optimizer), []
    for step in range(steps):
        began = time.perf_counter()
        x = base[torch.randint(0, 16, (batch,))] + 0.2 * torch.randn(batch, 256)
        t = torch.randint(1, 1000, (batch,)).float()
        dirty, noise = noised(x, t)
        loss = F.mse_loss(model(dirty, t), noise)
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if guard.healthy(loss.detach(), norm):
            optimizer.step()
            guard.remember(step)
        else:
            print(f"step {step}: not finite, back to step {guard.recover()}")
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.4f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step")


if __name__ == "__main__":
    main()
