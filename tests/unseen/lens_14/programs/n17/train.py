import statistics
import time

import torch
from torch.utils.data import DataLoader

from tiles import SmallUNet, Tiles


def main(epochs=4):
    torch.manual_seed(0)
    loader = DataLoader(Tiles(), batch_size=16, shuffle=True, num_workers=1, drop_last=True)  #: LINE
    model = SmallUNet()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.ExponentialLR(opt, 0.95)
    times, begin = [], time.perf_counter()
    for epoch in range(epochs):
        total = 0.0
        for tiles, masks in loader:
            loss = torch.nn.functional.cross_entropy(model(tiles), masks)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.detach()
            now = time.perf_counter()
            times.append(1e3 * (now - begin))
            begin = now
        schedule.step()
    times = times[3:]
    print(f"last epoch {float(total) / len(loader):.3f}")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


if __name__ == "__main__":
    main()
