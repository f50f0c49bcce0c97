import statistics
import time

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration, DistributedDataParallelKwargs, set_seed
from torch.nn import functional as F

from calls import Ear, loader


def main(steps=60, batch=24):
    set_seed(0)
    accelerator = Accelerator(
        cpu=True,
        dataloader_config=DataLoaderConfiguration(dispatch_batches=True),  #: LINE
        kwargs_handlers=[DistributedDataParallelKwargs(broadcast_buffers=False, gradient_as_bucket_view=True)],
    )
    model = Ear()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    model, optimizer, data = accelerator.prepare(model, optimizer, loader(batch))
    times, began = [], time.perf_counter()
    for step, (pictures, kinds) in enumerate(data):
        if step == steps:
            break
        loss = F.cross_entropy(model(pictures), kinds)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        now = time.perf_counter()
        times.append(1e3 * (now - began))
        began = now
    accelerator.print(f"loss {loss.item():.4f}")
    accelerator.print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    accelerator.end_training()


if __name__ == "__main__":
    main()
