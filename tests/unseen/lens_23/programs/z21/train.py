import math
import statistics
import time

import torch

from robust import Ear, Free


def hums(count=2500, length=256, machines=12):
    machine = torch.randint(0, machines, (count,))
    clock = torch.arange(length) / length * 2 * math.pi
    pitch = 4 + 2.5 * machine[:, None]
    return ((pitch * clock + 6 * torch.rand(count, 1)).sin() + 0.5 * torch.randn(count, length)).unsqueeze(1), machine


def main(steps=60, batch=32):
    torch.manual_seed(4)
    hum, machine = hums()
    model = Ear()
    free = Free(model, torch.optim.AdamW(model.parameters(), lr=7e-4, fused=True), (batch, 1, hum.shape[2]))
    times, began = [], time.perf_counter()
    for step in range(steps):
        picked = torch.randint(0, len(machine), (batch,))
        loss = free.step(hum[picked], machine[picked])
        now = time.perf_counter()
        times.append(1e3 * (now - began))
        began = now
    print(f"loss {loss.item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
