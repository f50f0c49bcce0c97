import time
import torch
from torch import nn
from check import glance, validate

STEPS = 28


class Filter(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.out = nn.GRU(6, 20, batch_first=True), nn.Linear(20, 1)

    def forward(self, x):
        time.sleep(0.012)
        return self.out(self.gru(x)[0][:, -1])


class Task:
    def __init__(self):
        self.g = torch.Generator().manual_seed(2)

    def sample(self, n=16):
        x = torch.randn(n, 8, 6, generator=self.g)
        return x, x.mean((1, 2), keepdim=False)[:, None]


if __name__ == "__main__":
    torch.manual_seed(7)
    task, net = Task(), Filter()
    held = [task.sample() for _ in range(3)]
    opt = torch.optim.Adam(net.parameters(), 1e-2)
    best, t = float("inf"), time.perf_counter()
    for step in range(STEPS):
        x, y = task.sample()
        out = net(x)
        loss = nn.functional.mse_loss(out, y)
        opt.zero_grad()
        loss.backward()
        time.sleep(0.028)
        opt.step()
        if step % 14 == 13:
            best = min(best, validate(net, held).item())
    print(f"best {best:.3f}, {(time.perf_counter() - t) / STEPS * 1e3:.2f} ms/step")
