import statistics
import time

import torch
from torch import nn

from nets import Critic, Painter


def main(steps=62, batch=10, z=48):
    torch.manual_seed(3)
    photos = torch.rand(320, 3, 32, 32) * 2 - 1
    painter, critic = Painter(z), Critic()
    opt_p = torch.optim.Adam(painter.parameters(), lr=2e-4, betas=(0.5, 0.9))
    opt_c = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.9))
    bce = nn.BCEWithLogitsLoss()
    yes, no = torch.ones(batch), torch.zeros(batch)
    times = []
    for step in range(steps):
        begin = time.perf_counter()
        real = photos[torch.randint(len(photos), (batch,))]
        fake = painter(torch.randn(batch, z))

        opt_c.zero_grad()
        critic_loss = bce(critic(real), yes) + bce(critic(fake.detach()), no)
        critic_loss.backward()
        opt_c.step()

        opt_p.zero_grad()
        painter_loss = bce(critic(fake), yes)
        painter_loss.backward()
        opt_p.step()
        times.append(1e3 * (time.perf_counter() - begin))
    times = times[3:]
    print(f"critic {critic_loss.item():.3f} painter {painter_loss.item():.3f}")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
