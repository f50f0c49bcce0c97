import statistics
import time

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

from tiles import Damage, Stem, roofs


def main(steps=60, batch=28):
    accelerator = Accelerator(cpu=True)
    set_seed(4)
    data = TensorDataset(*roofs())
    loader = DataLoader(data, batch_size=None, sampler=BatchSampler(RandomSampler(data), batch, drop_last=True))
    model = Damage(Stem())
    optimizer = torch.optim.AdamW(model.head.parameters(), lr=1e-3, fused=True)
    model, optimizer = accelerator.prepare(model, optimizer)
    model.train()
    times = []
    while len(times) < steps:
        for pictures, kinds in loader:
            began = time.perf_counter()
            loss = F.cross_entropy(model(pictures), kinds)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            times.append(1e3 * (time.perf_counter() - began))
            if len(times) == steps:
                break
    if accelerator.is_main_process:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    accelerator.end_training()


if __name__ == "__main__":
    main()
