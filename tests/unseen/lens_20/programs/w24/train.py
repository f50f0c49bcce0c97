import logging
import statistics
import time

import torch
from torch.nn import functional as F

from towers import Towers

log = logging.getLogger("train")


def main(steps=60, batch=768):
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    torch.manual_seed(0)
    model = Towers()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4, fused=True)
    visits = torch.randn(9000, 384)
    booked = (visits[:, 0] * visits[:, 1] > 0.5).float()
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, 9000, (batch,))
        loss = F.binary_cross_entropy_with_logits(model(visits[picked]), booked[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.debug("step %d: %s", step, loss)
        times.append(1e3 * (time.perf_counter() - began))
    log.info("loss %.5f", loss.item())
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
