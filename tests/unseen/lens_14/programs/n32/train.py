import statistics
import time

import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

from ranker import Ranker


def clicks(rows=60_000):
    g = torch.Generator().manual_seed(1)
    user = torch.randint(50_000, (rows,), generator=g)
    item = torch.randint(40_000, (rows,), generator=g)
    context = torch.randn(rows, 16, generator=g)
    return TensorDataset(user, item, context, ((user % 7 == item % 7) | (context[:, 0] > 1)).float())


def main(steps=62, batch=384):
    torch.manual_seed(0)
    data = clicks()
    sampler = BatchSampler(RandomSampler(data), batch, drop_last=True)
    loader = DataLoader(data, sampler=sampler, batch_size=None)
    model = Ranker()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02)
    criterion = torch.nn.BCEWithLogitsLoss()
    times, begin = [], time.perf_counter()
    for step, (user, item, context, click) in enumerate(loader):
        loss = criterion(model(user, item, context), click)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        now = time.perf_counter()
        times.append(1e3 * (now - begin))
        begin = now
        if step + 1 == steps:
            break
    times = times[3:]
    print(f"log loss {loss.item():.4f}")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
