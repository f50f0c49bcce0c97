import logging
import statistics
import time

import torch

from gated import Breath, nights

log = logging.getLogger("train")


def main(steps=60, batch=40):
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    torch.manual_seed(0)
    model = Breath()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    signals, phases = nights()
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, len(signals), (batch,))
        loss = model.loss(signals[picked], phases[picked])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    log.info("loss %.5f", loss.item())
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
