import statistics
import time

import torch
from torch.utils.data import DataLoader

from loans import Loans, Score, read_frame


def main():
    torch.manual_seed(0)
    loader = DataLoader(Loans(read_frame()), batch_size=24, shuffle=True, drop_last=True)
    model = Score()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    criterion = torch.nn.BCEWithLogitsLoss()
    times = []
    start = time.perf_counter()
    for step, (x, y) in enumerate(loader):
        loss = criterion(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        now = time.perf_counter()
        times.append(1e3 * (now - start))
        start = now
        if step == 61:
            break
    times = times[3:]
    print(f"loss {loss.item():.3f}")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


if __name__ == "__main__":
    main()
