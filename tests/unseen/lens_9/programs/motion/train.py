"""What is the wearer doing?  1-d convolutions over wrist sensors."""
import time

import numpy as np
import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader

from recordings import Recordings, as_lists


def block(i, o):
    return nn.Sequential(nn.Conv1d(i, o, 7, padding=3), nn.BatchNorm1d(o), nn.ReLU(), nn.MaxPool1d(2))


class Activity(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(block(6, 48), block(48, 64), block(64, 96), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(96, 8))

    def forward(self, x):
        return self.net(x)


def main(max_steps=64):
    torch.manual_seed(0)
    acc = Accelerator(cpu=True)
    model = Activity()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    loader = DataLoader(Recordings(), batch_size=128, shuffle=True, collate_fn=as_lists)
    model, opt, loader = acc.prepare(model, opt, loader)
    done = []
    for windows, labels in loader:
        x = torch.tensor(windows, device=acc.device)
        y = torch.tensor(labels, device=acc.device)
        loss = nn.functional.cross_entropy(model(x), y)
        acc.backward(loss)
        opt.step()
        opt.zero_grad()
        done.append(time.perf_counter())
        if len(done) == max_steps:
            break
    d = np.diff(done)[3:] * 1e3
    acc.print(f"{np.median(d):.2f} ms/step median, {d.mean():.2f} ms/step")
    acc.end_training()


main()
