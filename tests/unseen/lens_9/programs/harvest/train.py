"""Yield of a field from its year of weather."""
import time

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Yield(nn.Module):
    def __init__(self, d=96):
        super().__init__()
        self.lift = nn.Conv1d(9, d, 7, 7)
        self.mix = nn.TransformerEncoder(nn.TransformerEncoderLayer(d, 4, 2 * d, 0.0, batch_first=True), 3, enable_nested_tensor=False)
        self.tons = nn.Linear(d, 1)

    def forward(self, x):
        return self.tons(self.mix(self.lift(x).transpose(1, 2)).mean(1)).squeeze(1)


def numbers_of(out, y, loss):
    err = out - y
    return torch.stack([loss, err.abs().mean(), err.pow(2).mean(), err.abs().max(), out.mean(), out.std(), y.mean(), y.std()])


def main():
    acc = Accelerator(cpu=True)
    set_seed(0)
    weather = torch.randn(2400, 9, 364)
    data = TensorDataset(weather, weather[:, 2].mean(1) * 10)
    model = Yield()
    model, opt, loader = acc.prepare(model, torch.optim.Adam(model.parameters(), 5e-4), DataLoader(data, batch_size=16, shuffle=True, drop_last=True))
    running, ends = torch.zeros(8), []
    for x, y in loader:
        out = model(x)
        loss = nn.functional.smooth_l1_loss(out, y)
        acc.backward(loss)
        opt.step()
        opt.zero_grad()
        running = 0.9 * running + 0.1 * acc.reduce(numbers_of(out.detach(), y, loss.detach()), "mean")
        ends.append(time.perf_counter())
        if len(ends) == 62:
            break
    ms = [1000 * (b - a) for a, b in zip(ends, ends[1:])][3:]
    acc.print("running: " + " ".join(f"{v:.3f}" for v in running.tolist()))
    acc.print(f"{sorted(ms)[len(ms) // 2]:.2f} ms/step median, {sum(ms) / len(ms):.2f} ms/step", flush=True)
    model, opt, loader, out, loss = acc.free_memory(model, opt, loader, out, loss)
    acc.end_training()


if __name__ == "__main__":
    main()
