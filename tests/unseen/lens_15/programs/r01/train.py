import statistics
import time

import torch
from torch.utils.data import DataLoader, TensorDataset

from byol import BYOL
from views import crop_pair


def main(steps=60):
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.rand(2400, 3, 32, 32)), batch_size=36, shuffle=True, drop_last=True)
    model = BYOL()
    wanted = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(wanted, lr=0.05, momentum=0.9, weight_decay=1e-4)
    times, start = [], time.perf_counter()
    for step, (images,) in enumerate(loader):
        loss = model(*crop_pair(images))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.follow()
        end = time.perf_counter()
        times.append(1e3 * (end - start))
        start = end
        if step + 1 == steps:
            break
    times = times[3:]
    print(f"loss {loss.item():.3f}")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
