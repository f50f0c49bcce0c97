"""Next-note prediction with a progress bar; the run's terminal is far away."""
import statistics
import sys
import time
import torch
from torch import nn
from terminal import FarTerminal


class Progress:
    def __init__(self, total, width=24):
        self.total, self.width, self.n = total, width, 0

    def __call__(self, **shown):
        self.n += 1
        filled = self.width * self.n // self.total
        text = " ".join(f"{k}={v:.3f}" for k, v in shown.items())
        print(f"[{'=' * filled:<{self.width}}] {self.n}/{self.total} {text}", flush=True)  #: LINE


class Notes(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(8, 16, batch_first=True)
        self.out = nn.Linear(16, 8)

    def forward(self, x):
        time.sleep(0.038)
        return self.out(self.rnn(x)[0])


def epoch(model, opt, progress, steps):
    took, mean = [], 0.0
    for _ in range(steps):
        t = time.perf_counter()
        x = torch.randn(6, 10, 8)
        loss = (model(x)[:, :-1] - x[:, 1:]).square().mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        mean = 0.9 * mean + 0.1 * loss.item()
        progress(loss=mean)
        took.append(time.perf_counter() - t)
    return took


sys.stdout = FarTerminal(sys.stdout)
torch.manual_seed(6)
net = Notes()
took = epoch(net, torch.optim.Adam(net.parameters()), Progress(30), 30)
print(f"{1e3 * statistics.median(took):.2f} ms/step median, {1e3 * statistics.mean(took):.2f} ms/step")
