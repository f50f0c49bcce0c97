import time
import torch
from torch import nn
import dev
from guards import NoNan

STEPS = 32


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.up, self.down = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def forward(self, x):
        dev.issue(0.008)
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Loop:
    def __init__(self, callbacks):
        torch.manual_seed(4)
        self.net = nn.Sequential(nn.Linear(10, 32), *[Block(32) for _ in range(3)], nn.Linear(32, 1))
        self.opt = torch.optim.Adagrad(self.net.parameters(), lr=0.02)
        self.callbacks = callbacks

    def read(self, n):
        time.sleep(0.04)
        g = torch.Generator().manual_seed(n)
        x = torch.randn(40, 10, generator=g)
        return x, x.square().sum(1, keepdim=True)

    def step(self, n):
        x, y = self.read(n)
        loss = nn.functional.mse_loss(self.net(x), y)
        for c in self.callbacks:
            c.on_loss(loss, x)
        self.opt.zero_grad()
        dev.issue(0.012)
        loss.backward()
        self.opt.step()

    def fit(self):
        t = time.monotonic()
        for n in range(STEPS):
            self.step(n)
        dev.idle()
        return (time.monotonic() - t) / STEPS


if __name__ == "__main__":
    print(f"blocks: {Loop([NoNan()]).fit() * 1e3:.2f} ms/step")
