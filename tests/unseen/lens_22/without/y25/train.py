import statistics
import time

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader

from alloy import Alloy, Melts
from loop import big_step


def main(steps=60):
    accelerator = Accelerator(cpu=True)
    set_seed(0)
    melts = DataLoader(Melts(), batch_size=160, shuffle=True, drop_last=True)
    model = Alloy()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    model, optimizer, melts = accelerator.prepare(model, optimizer, melts)
    batches = iter(melts)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        if step % 20 == 0:
            batches = iter(melts)
        loss = big_step(accelerator, model, optimizer, batches)
        times.append(1e3 * (time.perf_counter() - began))
    accelerator.print(f"loss {loss.item():.6f}")
    accelerator.print(
        f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean"
    )
    accelerator.end_training()


if __name__ == "__main__":
    main()
