import statistics
import time

import torch
from torch.nn import functional as F

from shop import Taste, loans, optimizers


def main(steps=60, batch=512):
    torch.manual_seed(0)
    shelf, candidate, reader, borrowed = loans()
    model = Taste()
    steppers = optimizers(model)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, len(borrowed), (batch,))
        score = model(shelf[picked], candidate[picked], reader[picked])
        loss = F.binary_cross_entropy_with_logits(score, borrowed[picked])
        for optimizer in steppers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in steppers:
            optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"last loss {loss.item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
