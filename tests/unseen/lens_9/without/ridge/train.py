"""Height maps of mountains: a denoising autoencoder."""
import shutil
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn

from keep import BestKeeper


def terrain(b, g, side=40):
    x = torch.linspace(0, 6, side)
    a = torch.rand(b, 4, 1, 1, generator=g) * 2
    return (torch.sin(a[:, 0] * x[:, None]) + torch.cos(a[:, 1] * x) + a[:, 2] * torch.sin(x[:, None] * x / 6)).unsqueeze(1)


class Auto(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(1, 24, 3, 2, 1), nn.ReLU(), nn.Conv2d(24, 48, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(4800, 128))
        self.dec = nn.Sequential(nn.Linear(128, 4800), nn.ReLU(), nn.Unflatten(1, (48, 10, 10)),
                                 nn.ConvTranspose2d(48, 24, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(24, 1, 4, 2, 1))

    def forward(self, x):
        return self.dec(self.enc(x))


torch.manual_seed(4)
gen = torch.Generator().manual_seed(4)
model = Auto()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-4)
folder = tempfile.mkdtemp(prefix="ridge_")
try:
    keeper = BestKeeper(folder)
    stamps = []
    for step in range(61):
        clean = terrain(64, gen)
        noisy = clean + 0.3 * torch.randn(clean.shape, generator=gen)
        loss = nn.functional.mse_loss(model(noisy), clean)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        keeper.offer(step, loss.item(), model, optimizer)
        stamps.append(time.perf_counter())
finally:
    shutil.rmtree(folder)
ms = np.diff(stamps)[3:] * 1e3
print(f"{np.median(ms):.2f} ms/step median, {np.mean(ms):.2f} ms/step")
