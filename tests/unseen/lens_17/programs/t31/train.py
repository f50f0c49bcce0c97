import statistics
import time

import torch
from accelerate import Accelerator
from torch.nn import functional as F

from comments import Comments, Judge


def main(steps=60):
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    comments, model = Comments(), Judge()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model, optimizer = accelerator.prepare(model, optimizer)
    times, filled = [], []
    for step in range(steps):
        began = time.perf_counter()
        tokens, rude = comments[step]
        filled.append((tokens == 0).float().mean().item())
        loss = F.binary_cross_entropy_with_logits(model(tokens), rude)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    accelerator.print(f"loss {loss.item():.4f}, {100 * statistics.mean(filled):.1f}% of the places are empty")
    accelerator.print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    accelerator.end_training()


if __name__ == "__main__":
    main()
