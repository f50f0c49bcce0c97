import statistics
import time

import torch
from torch.nn import functional as F

from plates import Reader, photographs
from score import error_rate


def main(steps=60, batch=80):
    torch.manual_seed(0)
    strips, written = photographs()
    model = Reader()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, len(written), (batch,))
        scores = model(strips[picked])
        loss = F.cross_entropy(scores.flatten(0, 1), written[picked].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rate = error_rate(scores.detach(), written[picked])  #: LINE
        if step % 20 == 19:
            print(f"step {step + 1} loss {loss.item():.4f} character error rate {rate:.3f}")
        times.append(1e3 * (time.perf_counter() - began))
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
