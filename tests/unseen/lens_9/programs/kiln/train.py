"""The temperature of a kiln, foretold."""
import os
import tempfile
import time

import numpy as np
import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, Dataset

from background import BackgroundSaver


class Curves(Dataset):
    def __len__(self):
        return 5000

    def __getitem__(self, i):
        t = torch.linspace(0, 8, 61) + i * 0.01
        c = torch.stack([t.sin(), t.cos(), (t * 2).sin()], -1)
        return c[:-1], c[1:, :1]


class Kiln(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(3, 112, 2, batch_first=True)
        self.out = nn.Linear(112, 1)

    def forward(self, x):
        return self.out(self.rnn(x)[0])


def main():
    acc = Accelerator(cpu=True)
    torch.manual_seed(0)
    net = Kiln()
    net, opt, loader = acc.prepare(net, torch.optim.Adam(net.parameters()), DataLoader(Curves(), batch_size=32, shuffle=True))
    stamps = []
    with tempfile.TemporaryDirectory() as folder:
        saver = BackgroundSaver(os.path.join(folder, "last.pt"))
        for step, (x, y) in enumerate(loader, 1):
            loss = nn.functional.mse_loss(net(x), y)
            acc.backward(loss)
            acc.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            opt.zero_grad()
            saver.save(acc.unwrap_model(net).state_dict())
            stamps.append(time.perf_counter())
            if step == 62:
                break
        saver.close()
    ms = np.diff(stamps)[3:] * 1e3
    acc.print(f"{np.median(ms):.2f} ms/step median, {ms.mean():.2f} ms/step", flush=True)
    acc.end_training()


if __name__ == "__main__":
    main()
