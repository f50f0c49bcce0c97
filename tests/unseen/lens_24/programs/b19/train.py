import statistics
import time

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.nn import functional as F
from torch.utils.data import DataLoader

from names import Names, Speller, misspelt


def main(steps=60, batch=64):
    accelerator = Accelerator(cpu=True)
    set_seed(0)
    model = Speller()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, fused=True)
    loader = DataLoader(Names(), batch, shuffle=True, drop_last=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    stamps = [time.perf_counter()]
    for step, (said, written) in zip(range(1, steps + 1), loader):
        scores = model(said)
        loss = F.cross_entropy(scores.flatten(0, 1), written.flatten())
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        if step % 30 == 1:
            wrong = misspelt(scores[:8], written[:8])
        stamps.append(time.perf_counter())
    times = [1e3 * (b - a) for a, b in zip(stamps, stamps[1:])][3:]
    accelerator.print(f"loss {loss.item():.6f}, edits a letter {wrong:.3f}")
    accelerator.print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step mean")
    accelerator.end_training()


if __name__ == "__main__":
    main()
