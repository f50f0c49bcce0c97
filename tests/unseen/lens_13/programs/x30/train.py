import statistics
import time

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Pair(nn.Module):
    def __init__(self, words=3000, width=128):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.rnn = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.out = nn.Sequential(nn.Linear(4 * width, width), nn.ReLU(), nn.Linear(width, 3))

    def forward(self, a, b):
        a, b = (self.rnn(self.words(x))[0].mean(1) for x in (a, b))
        return self.out(torch.cat([a, b], 1))


def main(steps=62):
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    torch.manual_seed(0)
    data = TensorDataset(torch.randint(3000, (640, 24)), torch.randint(3000, (640, 18)), torch.randint(3, (640,)))
    loader = DataLoader(data, batch_size=10, shuffle=True)
    model = Pair()
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model, opt, loader = accelerator.prepare(model, opt, loader)
    times, curve, pieces = [], [], []
    begin = time.perf_counter()
    while len(times) < steps:
        for a, b, y in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(a, b), y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                opt.step()
                opt.zero_grad()
            pieces.append(accelerator.gather(loss.detach()).mean())
            if accelerator.sync_gradients:
                curve.append(torch.stack(pieces).mean().item())
                pieces.clear()
                now = time.perf_counter()
                times.append(1e3 * (now - begin))
                begin = now
                if len(times) == steps:
                    break
    times = times[3:]
    accelerator.print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
