import statistics
import time

import torch
from torch.nn import functional as F

from clicks import CrossNet, stream
from quality import Quality


def main(steps=60, batch=2048):
    torch.manual_seed(0)
    model, quality = CrossNet(), Quality()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    times = []
    for step, (codes, clicked) in enumerate(stream(steps, batch)):
        began = time.perf_counter()
        logits = model(codes)
        loss = F.binary_cross_entropy_with_logits(logits, clicked.float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        quality.update(logits.detach(), clicked)
        times.append(1e3 * (time.perf_counter() - began))
        if step % 20 == 19:
            print(f"step {step + 1}: loss {loss.item():.4f}, {quality.line()}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step")


if __name__ == "__main__":
    main()
