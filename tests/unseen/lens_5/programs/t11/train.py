"""Denoising of sensor traces. A thread reports to the lab's dashboard over HTTP, beside the training."""

import statistics
import time

import torch
from torch import nn

from dashboard import Reporter, start_dashboard


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(1, 32, 9, padding=4), nn.ReLU(), nn.Conv1d(32, 32, 9, padding=4), nn.ReLU(), nn.Conv1d(32, 1, 9, padding=4))

    def forward(self, x):
        return x - self.net(x)


def traces(step, count=48, length=256):
    rng = torch.Generator().manual_seed(step)
    clean = torch.sin(torch.linspace(0, 20, length) * (0.5 + torch.rand(count, 1, 1, generator=rng)))
    return clean + 0.3 * torch.randn(clean.shape, generator=rng), clean


def main():
    torch.manual_seed(0)
    server, port = start_dashboard()
    reporter = Reporter(port)
    model = Denoiser()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    times = []
    for step in range(110):
        begin = time.perf_counter()
        noisy, clean = traces(step)
        loss = nn.functional.mse_loss(model(noisy), clean)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        reporter.put(step=step, loss=loss.item())
        times.append(1e3 * (time.perf_counter() - begin))
    reporter.close()
    server.terminate()
    server.wait()
    print(f"{reporter.sent} reports; {statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


if __name__ == "__main__":
    main()
