import shutil
import time
import torch
from torch import nn
from journal import journal

STEPS = 30


class Rates(nn.Module):
    """A small flow: two coupling layers."""

    def __init__(self, d=8):
        super().__init__()
        self.nets = nn.ModuleList(nn.Sequential(nn.Linear(d // 2, 32), nn.ReLU(), nn.Linear(32, d)) for _ in range(2))

    def forward(self, x):
        total = 0.0
        for net in self.nets:
            a, b = x.chunk(2, 1)
            s, t = net(a).chunk(2, 1)
            time.sleep(0.02)
            s = torch.tanh(s)
            x = torch.cat([b * s.exp() + t, a], 1)
            total = total + s.sum(1)
        return x, total


def describe(net):
    return " ".join(f"{n}={p.norm():.3f}" for n, p in net.named_parameters()) + " " + "." * 200


def main():
    torch.manual_seed(0)
    log, where = journal()
    net = Rates()
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    t = time.perf_counter()
    for step in range(STEPS):
        z, det = net(torch.randn(64, 8) * 2 + 1)
        loss = (z.square().sum(1) / 2 - det).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        log.info("step %d loss %.3f %s", step, loss.item(), describe(net))  #: LINE
    print(f"flow: {(time.perf_counter() - t) / STEPS * 1e3:.2f} ms/step")
    shutil.rmtree(where, ignore_errors=True)


if __name__ == "__main__":
    main()
