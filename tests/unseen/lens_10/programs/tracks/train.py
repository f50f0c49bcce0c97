import gc
import statistics
import time

import torch
import torch.distributed as dist
from accelerate import Accelerator
from torch import nn


def paths(n, steps=60):
    walk = torch.randn(n, steps + 1, 6).cumsum(1) / 8
    return walk[:, :-1], walk[:, 1:]


class Predictor(nn.Module):
    def __init__(self, hidden=176):
        super().__init__()
        self.rnn = nn.LSTM(6, hidden, num_layers=1, batch_first=True)
        self.out = nn.Linear(hidden, 6)

    def forward(self, x):
        return self.out(self.rnn(x)[0])


def main():
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True)
    model = Predictor()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer = accelerator.prepare(model, optimizer)
    x, y = paths(32 * 8)
    ms = []
    for step in range(64):
        begin = time.perf_counter()
        s = slice(step % 8 * 32, (step % 8 + 1) * 32)
        loss = nn.functional.mse_loss(model(x[s]), y[s])
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        del loss
        gc.collect(0)
        ms.append((time.perf_counter() - begin) * 1000)
    ms = ms[3:]
    accelerator.print(f"{statistics.median(ms):.2f} ms/step median, {statistics.mean(ms):.2f} ms/step")
    accelerator.free_memory()
    del model, optimizer
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
