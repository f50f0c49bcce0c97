import statistics
from time import perf_counter

import torch
from torch import nn

from nets import Discriminator, Generator


def main(steps=62, batch=16, noise=64):
    torch.manual_seed(9)
    real_pictures = torch.rand(1000, 3, 32, 32) * 2 - 1
    generator, discriminator = Generator(noise), Discriminator()
    opt_g = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    opt_d = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    bce = nn.BCEWithLogitsLoss()
    ones, zeros = torch.ones(batch), torch.zeros(batch)
    times = []
    for step in range(steps):
        begin = perf_counter()
        real = real_pictures[torch.randint(len(real_pictures), (batch,))]
        fake = generator(torch.randn(batch, noise))

        opt_d.zero_grad()
        loss_d = bce(discriminator(real), ones) + bce(discriminator(fake), zeros)  #: LINE
        loss_d.backward(retain_graph=True)
        opt_d.step()

        opt_g.zero_grad()
        loss_g = bce(discriminator(fake), ones)
        loss_g.backward()
        opt_g.step()
        times.append(1e3 * (perf_counter() - begin))
    times = times[3:]
    print(f"d {loss_d.item():.3f} g {loss_g.item():.3f}")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
