import statistics
from time import perf_counter

import torch
import torch.nn.functional as F

from gan import discriminator, generator, trainable

torch.manual_seed(1)
STEPS, BATCH = 62, 24
digits = torch.rand(512, 1, 16, 16).mul(2).sub(1)
G, D = generator(), discriminator()
opt_g = torch.optim.Adam(G.parameters(), lr=2e-4, betas=(0.5, 0.999))
opt_d = torch.optim.Adam(D.parameters(), lr=2e-4, betas=(0.5, 0.999))
times = []
for step in range(STEPS):
    t = perf_counter()
    real = digits[torch.randint(len(digits), (BATCH,))]
    fake = G(torch.randn(BATCH, 64, 1, 1))

    d_loss = F.softplus(-D(real)).mean() + F.softplus(D(fake.detach())).mean()
    opt_d.zero_grad()
    d_loss.backward()
    opt_d.step()

    g_loss = F.softplus(-D(fake)).mean()
    opt_g.zero_grad()
    g_loss.backward()
    opt_g.step()
    times.append(1e3 * (perf_counter() - t))
times = times[3:]
print(f"d {d_loss.item():.3f} g {g_loss.item():.3f}")
print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
