import statistics
import time

import torch
from torch.nn import functional as F

from scents import Nose, mix


def main(steps=60, batch=144):
    torch.manual_seed(3)
    molecules, strength = mix()
    model = Nose()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    stamps = [time.perf_counter()]
    for step in range(steps):
        picked = torch.randint(len(strength), (batch,))
        few = molecules.at(picked)
        loss = F.mse_loss(model(**few.as_dict()), strength[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        stamps.append(time.perf_counter())
    times = [1e3 * (end - begin) for begin, end in zip(stamps, stamps[1:])][3:]
    print(f"loss {loss.item():.6f}")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step mean")


if __name__ == "__main__":
    main()
