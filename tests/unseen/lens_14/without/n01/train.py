import statistics
import time

import torch

from critic import Critic, Writer, gradient_penalty


def curves(count=2000, size=128):
    t = torch.linspace(0, 1, size)
    return torch.sin(2 * torch.pi * (1 + 5 * torch.rand(count, 1)) * t) * (0.5 + 0.5 * torch.rand(count, 1))


def main(steps=60, batch=48, critics=2):
    torch.manual_seed(0)
    data = curves()
    writer, critic = Writer(), Critic()
    opt_w = torch.optim.Adam(writer.parameters(), lr=1e-4, betas=(0.0, 0.9))
    opt_c = torch.optim.Adam(critic.parameters(), lr=1e-4, betas=(0.0, 0.9))
    times = []
    for step in range(steps):
        begin = time.perf_counter()
        for _ in range(critics):
            real = data[torch.randint(len(data), (batch,))]
            with torch.no_grad():
                fake = writer(torch.randn(batch, 32))
            loss_c = critic(fake).mean() - critic(real).mean()
            opt_c.zero_grad()
            loss_c.backward()
            opt_c.step()
        critic.requires_grad_(False)
        loss_w = -critic(writer(torch.randn(batch, 32))).mean()
        opt_w.zero_grad()
        loss_w.backward()
        opt_w.step()
        critic.requires_grad_(True)
        times.append(1e3 * (time.perf_counter() - begin))
    times = times[3:]
    print(f"critic {loss_c.item():.3f} writer {loss_w.item():.3f}")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
