import gc

import torch
from torch import nn

from steptime import StepTime

STEPS = 64


class Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(784, 400), nn.ReLU(), nn.Linear(400, 64))
        self.dec = nn.Sequential(nn.Linear(32, 400), nn.ReLU(), nn.Linear(400, 784))

    def forward(self, x):
        mu, logvar = self.enc(x).chunk(2, dim=-1)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(-1).mean()
        return self.dec(z), kl


def main():
    torch.manual_seed(0)
    model = Vae()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    gc.collect()
    gc.freeze()
    gc.disable()
    clock = StepTime()
    for step in range(STEPS):
        x = torch.rand(512, 784)
        out, kl = model(x)
        loss = nn.functional.binary_cross_entropy_with_logits(out, x) + 1e-3 * kl
        opt.zero_grad()
        loss.backward()
        opt.step()
        gc.collect(0)
        clock.tick()
    gc.enable()
    print(f"loss {loss.item():.4f}")
    clock.report()


if __name__ == "__main__":
    main()
