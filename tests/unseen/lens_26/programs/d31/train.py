import statistics
import time

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

from prompted import Prompted, Reader


def complaints(count=2000, length=32, words=2000, kinds=9):
    kind = torch.randint(0, kinds, (count,))
    report = torch.randint(0, words, (count, length))
    report[:, 5] = kind * 7
    return TensorDataset(report, kind)


def main(steps=60, batch=12):
    accelerator = Accelerator(cpu=True)
    set_seed(9)
    data = complaints()
    loader = DataLoader(data, batch_size=None, sampler=BatchSampler(RandomSampler(data), batch, drop_last=True))
    model = Prompted(Reader())
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learned, lr=3e-3, fused=True)
    model, optimizer = accelerator.prepare(model, optimizer)
    times, batches = [], iter(loader)
    for step in range(steps):
        began = time.perf_counter()
        report, kind = next(batches)
        loss = F.cross_entropy(model(report), kind)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if accelerator.is_main_process:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    accelerator.end_training()


if __name__ == "__main__":
    main()
