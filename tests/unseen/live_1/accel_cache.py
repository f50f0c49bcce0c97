"""Accelerate: the main process fills a feature cache first, the others read it."""
import os
import tempfile
import time

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

CACHE = os.path.join(tempfile.gettempdir(), f"features_{os.environ.get('MASTER_PORT', '0')}.pt")


def features():
    if os.path.exists(CACHE):
        return torch.load(CACHE)
    rows = []
    for k in range(12):
        time.sleep(1.0)
        rows.append(torch.randn(20, 10, generator=torch.Generator().manual_seed(k)))
        print("feature block", k, flush=True)
    x = torch.cat(rows)
    torch.save(x, CACHE)
    return x


def main():
    acc = Accelerator(cpu=True, gradient_accumulation_steps=3)
    with acc.main_process_first():
        x = features()
    model = torch.nn.Linear(10, 1)
    opt = torch.optim.SGD(model.parameters(), 0.05)
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=7)
    model, opt, loader = acc.prepare(model, opt, loader)
    for epoch in range(2):
        losses = []
        for a, b in loader:
            with acc.accumulate(model):
                loss = (model(a) - b).pow(2).mean()
                acc.backward(loss)
                opt.step()
                opt.zero_grad()
            losses.append(acc.gather_for_metrics(loss.detach().reshape(1)).mean().item())
        acc.print("epoch", epoch, losses[0], "->", losses[-1], flush=True)
    acc.wait_for_everyone()
    if acc.is_main_process:
        os.unlink(CACHE)
    acc.end_training()


if __name__ == "__main__":
    main()
