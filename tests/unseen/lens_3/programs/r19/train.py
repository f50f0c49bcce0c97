"""Tides at a harbour: a recurrent net, one step per month of readings."""
import math
import time

import torch
from torch import nn

from reporter import Reporter

torch.set_num_threads(1)
torch.manual_seed(21)


class Tide(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.cell = nn.GRUCell(1, hidden)
        self.out = nn.Linear(hidden, 1)
        self.hidden = hidden

    def forward(self, level):
        h = level.new_zeros(level.shape[1], self.hidden)
        guesses = []
        for now in level[:-1]:
            h = self.cell(now, h)
            guesses.append(self.out(h))
        return torch.stack(guesses)


def months(count):
    for m in range(count):
        t = torch.arange(13.0).view(-1, 1, 1) + 30 * m
        phase = torch.rand(1, 16, 1) * math.tau
        yield m, torch.sin(t / 12.4 * math.tau + phase) + 0.05 * torch.randn(13, 16, 1)


net = Tide()
opt = torch.optim.RMSprop(net.parameters(), lr=1e-3)
reporter = Reporter().start()
total, count = 0.0, 34
begin = time.perf_counter()
for month, level in months(count):
    guess = net(level)
    time.sleep(0.030)                            # the recurrent kernels run elsewhere
    loss = (guess - level[1:]).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
    total += float(loss)
    reporter.note(month, loss=float(loss), high=float(level.max()))
ms = (time.perf_counter() - begin) / count * 1e3
reporter.close()
print(f"mean {total / count:.4f}, rows sent {reporter.sent}")
print(f"{ms:.2f} ms/step")
