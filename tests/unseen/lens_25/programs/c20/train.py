import statistics
import time
import warnings

import torch
from torch.nn import functional as F

from whales import Hydrophone, listener

warnings.filterwarnings("ignore", category=UserWarning)


def main(steps=60, batch=32):
    torch.manual_seed(0)
    phone = Hydrophone()
    model = listener()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    times, began = [], time.perf_counter()
    for step in range(steps):
        windows, labels = phone.draw(batch)
        loss = F.binary_cross_entropy_with_logits(model(windows), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        now = time.perf_counter()
        times.append(1e3 * (now - began))
        began = now
    print(f"loss {loss.item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
