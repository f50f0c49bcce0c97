"""Next-day load forecast for a power grid, with a line on the console for each step."""
import torch
from torch import nn

from pace import Pace


class Forecaster(nn.Module):
    def __init__(self, inputs=24, hidden=160):
        super().__init__()
        self.rnn = nn.GRU(inputs, hidden, num_layers=2, batch_first=True)
        self.out = nn.Linear(hidden, 24)

    def forward(self, x):
        h, _ = self.rnn(x)
        return self.out(h[:, -1])


def train(steps=64):
    torch.manual_seed(0)
    model = Forecaster()
    opt = torch.optim.RMSprop(model.parameters(), lr=5e-4)
    weeks = torch.randn(40, 64, 32, 24)
    target = weeks[:, :, -7:].mean(2)
    best, worse, running = float("inf"), 0, None
    pace = Pace()
    for step in range(steps):
        x, y = weeks[step % 40], target[step % 40]
        loss = nn.functional.smooth_l1_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if torch.isnan(loss):
            raise RuntimeError("loss is not a number")
        opt.step()
        value = loss.item()
        running = value if running is None else 0.95 * running + 0.05 * value
        if running < best:
            best, worse = running, 0
        else:
            worse += 1
        print(f"[{step + 1:3d}/{steps}] loss {value:.4f} running {running:.4f} norm {float(norm):.3f}", flush=True)
        pace.tick()
    pace.report()


if __name__ == "__main__":
    train()
