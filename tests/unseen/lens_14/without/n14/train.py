import statistics
import time

import torch
from torch.utils.data import DataLoader, TensorDataset

from experts import Classifier


def main(steps=64):
    torch.manual_seed(6)
    ids = torch.randint(3000, (16 * steps, 64))
    loader = DataLoader(TensorDataset(ids, ids[:, 0] % 5), batch_size=16, shuffle=True)
    model = Classifier()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    times, begin = [], time.perf_counter()
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        now = time.perf_counter()
        times.append(1e3 * (now - begin))
        begin = now
    times = times[3:]
    print(f"loss {loss.item():.3f}")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
