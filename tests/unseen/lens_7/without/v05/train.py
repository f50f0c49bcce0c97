import gc

import torch
from torch import nn

from steptime import StepTime

STEPS = 62


class UNet(nn.Module):
    def __init__(self, c=20):
        super().__init__()
        self.down1 = nn.Sequential(nn.Conv2d(1, c, 3, padding=1), nn.ReLU(), nn.Conv2d(c, c, 3, padding=1), nn.ReLU())
        self.down2 = nn.Sequential(nn.Conv2d(c, 2 * c, 3, padding=1), nn.ReLU(), nn.Conv2d(2 * c, 2 * c, 3, padding=1), nn.ReLU())
        self.up = nn.ConvTranspose2d(2 * c, c, 2, stride=2)
        self.out = nn.Sequential(nn.Conv2d(2 * c, c, 3, padding=1), nn.ReLU(), nn.Conv2d(c, 2, 1))

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(nn.functional.max_pool2d(a, 2))
        return self.out(torch.cat([a, self.up(b)], 1))


def free_memory():
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def main():
    torch.manual_seed(0)
    model = UNet()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    clock = StepTime()
    for step in range(STEPS):
        x = torch.randn(3, 1, 64, 64)
        y = (x.squeeze(1) > 0.3).long()
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}")
        del x, y, loss
        if step % 5 == 0:
            free_memory()
        clock.tick()
    clock.report()


if __name__ == "__main__":
    main()
