import argparse
import statistics
import time

import torch

from distil import DistilLoss
from nets import keyword_net


def options():
    p = argparse.ArgumentParser()
    p.add_argument("--batch", type=int, default=14)
    p.add_argument("--steps", type=int, default=64)
    p.add_argument("--soft", type=float, default=0.0)
    return p.parse_args()


def main():
    o = options()
    torch.manual_seed(0)
    x, y = torch.randn(480, 1, 40, 50), torch.randint(10, (480,))
    student, teacher = keyword_net(48, 3), keyword_net(48, 3)
    criterion = DistilLoss(teacher, weight=o.soft)
    optimizer = torch.optim.Adam(student.parameters(), lr=1e-3)
    lap = []
    for step in range(o.steps):
        now = time.perf_counter()
        i = torch.randint(len(x), (o.batch,))
        loss = criterion(student(x[i]), x[i], y[i])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        lap.append((time.perf_counter() - now) * 1000)
    print(f"{statistics.median(lap[3:]):.2f} ms/step median, {statistics.mean(lap[3:]):.2f} ms/step")


if __name__ == "__main__":
    main()
