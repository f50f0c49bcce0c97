import statistics
import time

import torch
from accelerate import Accelerator
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, RandomSampler

from blend import Blend, Teas


def main(steps=60, batch=256):
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True)
    teas = Teas()
    batches = DataLoader(teas, batch_size=None, sampler=BatchSampler(RandomSampler(teas), batch, drop_last=True))
    model = Blend()
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True))
    times, began = [], time.perf_counter()
    for step, (facts, marks) in zip(range(steps), batches):
        loss = F.mse_loss(model(facts), marks)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        now = time.perf_counter()
        times.append(1e3 * (now - began))
        began = now
    if accelerator.is_main_process:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    accelerator.end_training()


if __name__ == "__main__":
    main()
