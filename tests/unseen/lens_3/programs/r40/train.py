"""Sounds of six insects told apart by their spectra."""
import time

import torch
from torch import nn

from callbacks import CLASSES, Confusion, Count
from gpu import Stream

torch.set_num_threads(1)
torch.manual_seed(11)


class Recordings:
    def __init__(self, epochs, per_epoch):
        self.plan = [(e, b) for e in range(epochs) for b in range(per_epoch)]
        self.centres = torch.randn(CLASSES, 40)

    def __iter__(self):
        for _ in self.plan:
            time.sleep(0.03)                     # fetch from the recorder's archive
            wanted = torch.randint(CLASSES, (48,))
            yield self.centres[wanted] + torch.randn(48, 40), wanted


class Trainer:
    def __init__(self, callbacks):
        self.net = nn.Sequential(nn.Linear(40, 64), nn.GELU(), nn.Linear(64, CLASSES))
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.stream = Stream()
        self.callbacks = callbacks
        self.steps = 0

    def batch(self, spectra, wanted):
        logits = self.net(spectra)
        self.opt.zero_grad()
        nn.functional.cross_entropy(logits, wanted).backward()
        self.opt.step()
        predicted = self.stream.issue(logits.argmax(-1), ms=45)
        for c in self.callbacks:
            c.on_batch(predicted, wanted)
        self.steps += 1

    def fit(self, data):
        start = time.perf_counter()
        for spectra, wanted in data:
            self.batch(spectra, wanted)
        self.stream.wait()
        spent = time.perf_counter() - start
        for c in self.callbacks:
            c.on_end()
        return spent / self.steps * 1000


ms = Trainer([Count(), Confusion()]).fit(Recordings(epochs=4, per_epoch=7))
print(f"{ms:.2f} ms/step")
