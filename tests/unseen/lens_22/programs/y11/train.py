import statistics
import time

import torch
from torch.nn import functional as F

from mesh import Truss, truss


def sound(loss, model, limit=1e4):
    """Whether this step may be taken: now and then a truss is so slender that everything overflows."""
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    return bool(torch.isfinite(loss) & torch.isfinite(norm) & (norm < limit))


def main(steps=60, many=12):
    torch.manual_seed(0)
    cases = [truss() for _ in range(many)]
    model = Truss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    times, skipped = [], 0
    for step in range(steps):
        began = time.perf_counter()
        load, source, target, give = cases[step % many]
        loss = F.smooth_l1_loss(model(load, source, target), give)
        optimizer.zero_grad()
        loss.backward()
        if sound(loss, model):
            optimizer.step()
        else:
            skipped += 1
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.6f}, {skipped} steps left out")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
