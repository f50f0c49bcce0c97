import statistics
import time

import torch
from torch.nn import functional as F

from pitch import PitchNet, hums


def main(steps=60, batch=20):
    torch.manual_seed(0)
    model = PitchNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    g = torch.Generator().manual_seed(7)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        sound, notes = hums(batch, g)
        logits = model(sound)
        loss = F.cross_entropy(logits.flatten(0, 1), notes.flatten())
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.4f} gradient {norm:.3f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
