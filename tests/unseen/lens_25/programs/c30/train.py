import statistics
import time

import torch

from levels import Pyramid, harbour, level_loss


def main(steps=60, batch=16):
    torch.manual_seed(0)
    pictures, boats = harbour()
    model = Pyramid()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True, fused=True)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, len(pictures), (batch,))
        loss = level_loss(model(pictures[picked]), [level[picked] for level in boats])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"last loss {loss.item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
