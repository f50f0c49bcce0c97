import statistics
import time

import torch
from torch.nn import functional as F

from denoiser import Denoiser
from diffusion import Noise


def main(steps=60, batch=12):
    torch.manual_seed(0)
    images = F.interpolate(torch.randn(800, 1, 4, 4), size=(28, 28), mode="bilinear")
    model, noise = Denoiser(), Noise()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    times = []
    for step in range(steps):
        start = time.perf_counter()
        noisy, wanted, level = noise(images[torch.randint(len(images), (batch,))])
        loss = F.mse_loss(model(noisy, level), wanted)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - start))
    times = times[3:]
    print(f"loss {loss.item():.4f}")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
