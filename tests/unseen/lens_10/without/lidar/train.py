import gc
import time

import numpy as np
import torch
from accelerate import Accelerator

from points import PointNet, sweeps


def free():
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def main(steps=62, batch=16):
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(5)
    net = PointNet()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    net, optimizer, scheduler = accelerator.prepare(net, optimizer, scheduler)
    cloud, label = sweeps(batch * 12)
    laps = []
    for step in range(steps):
        lap = time.perf_counter()
        part = slice(step % 12 * batch, (step % 12 + 1) * batch)
        with accelerator.accumulate(net):
            out = net(cloud[part])
            loss = torch.nn.functional.cross_entropy(out, label[part])
            accelerator.backward(loss)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        del out, loss
        if step == steps - 1:
            free()
        laps.append(1000 * (time.perf_counter() - lap))
    laps = np.array(laps[3:])
    accelerator.print(f"{np.median(laps):.2f} ms/step median, {laps.mean():.2f} ms/step")
    accelerator.free_memory()
    del net, optimizer, scheduler
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
