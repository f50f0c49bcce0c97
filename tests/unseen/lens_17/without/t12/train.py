import statistics
import time

import torch
from accelerate import Accelerator
from torch.nn import functional as F
from torch.utils.data import DataLoader

from overlap import Overlap
from streets import SegNet, Streets


def main(steps=60, batch=10):
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    loader = DataLoader(Streets(), batch, shuffle=True, drop_last=True)
    model = SegNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    overlap = Overlap(accelerator)
    times, began = [], time.perf_counter()
    for scenes, labels in loader:
        logits = model(scenes)
        loss = F.cross_entropy(logits, labels)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        overlap.update(logits, labels)
        now = time.perf_counter()
        times.append(1e3 * (now - began))
        began = now
        if len(times) == steps:
            break
    accelerator.print(f"loss {loss.item():.4f} overlap {overlap.value():.4f}")
    accelerator.print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    accelerator.end_training()


if __name__ == "__main__":
    main()
