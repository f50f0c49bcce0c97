"""Variational autoencoder for handwriting strokes, followed in TensorBoard."""
import tempfile

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.tensorboard import SummaryWriter

from pace import Pace

STEPS = 62


class StrokeVAE(nn.Module):
    def __init__(self, points=128, hidden=320, latent=32):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(points, hidden), nn.ELU(), nn.Linear(hidden, hidden), nn.ELU(),
                                    nn.Linear(hidden, 2 * latent))
        self.decode = nn.Sequential(nn.Linear(latent, hidden), nn.ELU(), nn.Linear(hidden, hidden), nn.ELU(),
                                    nn.Linear(hidden, points))

    def forward(self, x):
        mean, log_var = self.encode(x).chunk(2, -1)
        z = mean + torch.randn_like(mean) * (0.5 * log_var).exp()
        kl = 0.5 * (mean.square() + log_var.exp() - 1 - log_var).sum(-1).mean()
        return self.decode(z), kl


def write(writer, model, loss, kl, step):
    writer.add_scalar("train/loss", loss.item(), step)
    writer.add_scalar("train/kl", kl.item(), step)
    if step % 60 == 59:
        for name, p in model.named_parameters():
            writer.add_histogram(f"weights/{name}", p, step)


def main():
    torch.manual_seed(0)
    strokes = torch.randn(8192, 16) @ torch.randn(16, 128)
    model = StrokeVAE()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    pace = Pace()
    with tempfile.TemporaryDirectory() as folder:
        writer = SummaryWriter(folder)
        for step in range(STEPS):
            x = strokes[torch.randint(0, 8192, (1600,))]
            rebuilt, kl = model(x)
            loss = F.mse_loss(rebuilt, x) + 1e-3 * kl
            opt.zero_grad()
            loss.backward()
            opt.step()
            write(writer, model, loss, kl, step)
            pace.tick()
        writer.close()
    print(f"loss {loss.item():.4f}")
    pace.report()


if __name__ == "__main__":
    main()
