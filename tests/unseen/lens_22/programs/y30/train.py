import statistics
import time

import torch

from contrast import Contrast
from shards import Encoder, seen_anew, shards


def main(steps=60, batch=40):
    torch.manual_seed(0)
    pots = shards()
    encoder, contrast = Encoder(), Contrast()
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=1e-3, fused=True)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = pots[torch.randint(0, len(pots), (batch,))]
        a, b = encoder(torch.cat([seen_anew(picked), seen_anew(picked)])).chunk(2)
        loss = contrast(a, b)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.4f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
