import statistics
import time

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.nn import functional as F

from parcels import loader, network


def main(steps=60, batch=256):
    accelerator = Accelerator(cpu=True)
    set_seed(0)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    model, optimizer, batches = accelerator.prepare(model, optimizer, loader(batch))
    times, step = [], 0
    while step < steps:
        end = time.perf_counter()
        for x, y in batches:
            loss = F.smooth_l1_loss(model(x), y)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            step += 1
            begin, end = end, time.perf_counter()
            times.append(1e3 * (end - begin))
            if step == steps:
                break
    loss = accelerator.reduce(loss.detach(), "mean")
    if accelerator.is_main_process:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    accelerator.end_training()


if __name__ == "__main__":
    main()
