import statistics
import tempfile
import time

import torch
from torch.nn import functional as F

from denoise import Denoiser
from keeper import Keeper


def main(steps=60, batch=640):
    torch.manual_seed(0)
    model = Denoiser()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    spectra = torch.sin(torch.rand(2000, 1) * torch.arange(128))
    times = []
    with tempfile.TemporaryDirectory() as folder:
        keeper = Keeper(folder, model, optimizer)
        for step in range(steps):
            began = time.perf_counter()
            clean = spectra[torch.randint(0, 2000, (batch,))]
            t, noise = torch.rand(batch, 1), torch.randn(batch, 128)
            loss = F.mse_loss(model((1 - t).sqrt() * clean + t.sqrt() * noise, t), noise)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            keeper.see(loss)
            times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.5f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
