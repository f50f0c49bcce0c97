import statistics
import time

import torch
from torch.nn import functional as F

from early import EarlyStopping
from ores import Ores, rocks


def main(steps=60, batch=128):
    torch.manual_seed(0)
    spectra, content = rocks()
    model = Ores()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    stopping = EarlyStopping()
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, len(spectra), (batch,))
        loss = F.l1_loss(model(spectra[picked]), content[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if stopping(loss.item(), model, optimizer):
            break
        times.append(1e3 * (time.perf_counter() - began))
    stopping.restore(model, optimizer)
    print(f"lowest {stopping.lowest:.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
