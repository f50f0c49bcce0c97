import tempfile

import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter

from steptime import StepTime

STEPS = 62


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 16))
        self.dec = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 784))

    def forward(self, x):
        return self.dec(self.enc(x))


def write(writer, model, loss, step):
    writer.add_scalar("loss", loss.item(), step)
    for name, p in model.named_parameters():
        writer.add_histogram(name, p, step)  #: LINE


def main():
    torch.manual_seed(0)
    model = Autoencoder()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    clock = StepTime()
    with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as writer:
        for step in range(STEPS):
            x = torch.rand(768, 784)
            loss = nn.functional.mse_loss(model(x), x)
            opt.zero_grad()
            loss.backward()
            opt.step()
            write(writer, model, loss, step)
            clock.tick()
    clock.report()


if __name__ == "__main__":
    main()
