#!/usr/bin/env python3
import json
import math
import os
import pathlib
from datetime import timedelta

import torch
import torch.nn as nn
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs
from torch.utils.data import DataLoader, Dataset


class Sines(Dataset):
    """Noisy sines; one region of the data is much harder than the rest."""

    def __init__(self, n=128):
        g = torch.Generator().manual_seed(0)
        self.t = torch.linspace(0, 6.28, n).unsqueeze(1)
        self.y = torch.sin(self.t) + 0.01 * torch.randn(n, 1, generator=g)
        self.y[25:28] += 40.0

    def __len__(self):
        return len(self.t)

    def __getitem__(self, i):
        return self.t[i], self.y[i]


class Run:
    def __init__(self):
        handler = InitProcessGroupKwargs(backend="gloo", timeout=timedelta(seconds=20))
        self.acc = Accelerator(cpu=True, kwargs_handlers=[handler])
        torch.manual_seed(3)
        self.model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
        self.opt = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.loader = DataLoader(Sines(), batch_size=4, shuffle=False)
        self.model, self.opt, self.loader = self.acc.prepare(self.model, self.opt, self.loader)
        self.history = []

    def too_big(self, loss):
        return not math.isfinite(loss) or loss > 50.0

    def train(self):
        for step, (t, y) in enumerate(self.loader):
            self.opt.zero_grad()
            loss = (self.model(t) - y).pow(2).mean()
            self.acc.backward(loss)
            self.opt.step()
            self.history.append(loss.item())
            if self.too_big(loss.item()):
                self.acc.set_trigger()
            if self.acc.check_trigger():
                break
        return step

    def finish(self, step):
        losses = self.acc.gather(torch.tensor([self.history[-1]]))
        if self.acc.is_main_process:
            target = pathlib.Path(__file__).resolve().parent / "acc_stop_log.json"
            tmp = target.with_name(target.name + ".new")
            tmp.write_text(json.dumps({"step": step, "last": losses.tolist()}))
            os.replace(tmp, target)
            print("stopped at", step, "last losses", [round(v, 2) for v in losses.tolist()])
        self.acc.wait_for_everyone()
        self.acc.end_training()


if __name__ == "__main__":
    run = Run()
    run.finish(run.train())
