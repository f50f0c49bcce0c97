import statistics
import time

import torch
from torch.nn import functional as F

from events import EventNet, street


def main(steps=60, batch=24):
    torch.manual_seed(0)
    model = EventNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    g = torch.Generator().manual_seed(5)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        sound, labels = street(batch, g)
        loss = F.binary_cross_entropy_with_logits(model(sound), labels)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.4f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
