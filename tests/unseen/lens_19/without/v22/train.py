import statistics
import time

import torch

from distil import Distil
from nets import convs


def main(steps=60, batch=32):
    torch.manual_seed(0)
    student, teacher = convs(32, 3), convs(48, 2)
    criterion = Distil(teacher)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.02, momentum=0.9, fused=True)
    images = torch.randn(1500, 3, 32, 32)
    kinds = torch.randint(0, 20, (1500,))
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, 1500, (batch,))
        loss = criterion(student, images[picked], kinds[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.5f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
