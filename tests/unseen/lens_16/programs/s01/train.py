import logging
import statistics
import time

import torch
from torch.nn import functional as F

from autoencoder import AutoEncoder, grains

log = logging.getLogger("train")


def main(steps=60, batch=32):
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    torch.manual_seed(0)
    clean = grains(512)
    model = AutoEncoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        x = clean[torch.randint(0, len(clean), (batch,))]
        dirty = x + 0.3 * torch.randn_like(x)
        log.debug("step %d: batch %s of %s", step, tuple(x.shape), x.dtype)
        out = model(dirty)
        loss = F.mse_loss(out, x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.debug("step %d: loss %s, picture %s", step, loss, out)
        if log.isEnabledFor(logging.DEBUG):
            for name, p in model.named_parameters():
                log.debug(f"{name}: {p.grad}")
        if step % 20 == 0:
            log.info(f"step {step}: loss {loss.item():.4f}, at {time.strftime('%H:%M:%S')}")
        times.append(1e3 * (time.perf_counter() - began))
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step")


if __name__ == "__main__":
    main()
