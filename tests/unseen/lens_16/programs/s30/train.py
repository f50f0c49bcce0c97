import os
import statistics
import tempfile
import time

import torch
from accelerate import Accelerator
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lora import Frozen


def rows(count=48000, features=96, classes=12):
    x = torch.randn(count, features)
    return TensorDataset(x, (x @ torch.randn(features, classes)).argmax(1))


def main(steps=60, batch=768, save_every=20):
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    loader = DataLoader(rows(), batch, shuffle=True, drop_last=True)
    model = Frozen()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    times = []
    with tempfile.TemporaryDirectory() as folder:
        for step, (x, y) in zip(range(steps), loader):
            began = time.perf_counter()
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            if step % save_every == save_every - 1:
                state = accelerator.unwrap_model(model).adapter()
                accelerator.save(state, os.path.join(folder, f"adapter_{step + 1}.pt"))
            times.append(1e3 * (time.perf_counter() - began))
        accelerator.print(f"{len(os.listdir(folder))} files, loss {loss.item():.4f}")
    accelerator.print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step")
    accelerator.end_training()


if __name__ == "__main__":
    main()
