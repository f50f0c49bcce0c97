import statistics
import tempfile
import time

import torch

from journal import Journal
from vae import VAE, loss_parts


def digits(count=24000):
    g = torch.Generator().manual_seed(0)
    shapes = (torch.rand(10, 784, generator=g) > 0.7).float()
    label = torch.randint(10, (count,), generator=g)
    return (shapes[label] + 0.2 * torch.randn(count, 784, generator=g)).clamp(0, 1)


def main(steps=60, batch=960):
    torch.manual_seed(0)
    data, model = digits(), VAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    times = []
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(folder, every=50)
        for step in range(steps):
            start = time.perf_counter()
            x = data[torch.randint(len(data), (batch,))]
            logits, mean, logvar = model(x)
            pixels, kl = loss_parts(x, logits, mean, logvar)
            optimizer.zero_grad()
            (pixels + kl).backward()
            optimizer.step()
            journal.step(step, model, pixels=pixels.item(), kl=kl.item())
            times.append(1e3 * (time.perf_counter() - start))
        journal.close()
    times = times[3:]
    print(f"pixels {pixels.item():.1f}, kl {kl.item():.2f}")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
