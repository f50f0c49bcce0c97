import statistics
import time

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

from tabular import FTTransformer

SIZES, NUMBERS = [12, 40, 7, 25, 90, 5, 18, 31], 14


def table(rows=4000):
    g = torch.Generator().manual_seed(4)
    categories = torch.stack([torch.randint(n, (rows,), generator=g) for n in SIZES], 1)
    numbers = torch.randn(rows, NUMBERS, generator=g)
    target = numbers[:, 0] * (categories[:, 2] > 3) + 0.3 * numbers[:, 5]
    return TensorDataset(categories, numbers, target)


def main():
    torch.autograd.set_detect_anomaly(True)  #: LINE
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True)
    loader = DataLoader(table(), batch_size=40, shuffle=True, drop_last=True)
    model = FTTransformer(SIZES, NUMBERS)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=1e-5)
    model, opt, loader = accelerator.prepare(model, opt, loader)
    times, begin = [], time.perf_counter()
    for step, (categories, numbers, target) in enumerate(loader):
        prediction = model(categories, numbers)
        loss = torch.nn.functional.mse_loss(prediction, target)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad()
        now = time.perf_counter()
        times.append(1e3 * (now - begin))
        begin = now
        if step == 63:
            break
    times = times[3:]
    accelerator.print(f"mse {loss.item():.3f}")
    accelerator.print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
