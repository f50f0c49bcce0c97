import statistics
import time

import torch
from accelerate import Accelerator, DistributedDataParallelKwargs

from cells import Cells, sample
from loop import one_step


def main(steps=60, batch=512, parts=4):
    accelerator = Accelerator(cpu=True, kwargs_handlers=[DistributedDataParallelKwargs(gradient_as_bucket_view=True)])
    torch.manual_seed(0)
    model = Cells()
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True))
    genes, kinds = sample(accelerator.process_index)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, len(kinds), (batch,)).split(batch // parts)
        loss = one_step(accelerator, model, optimizer, [(genes[p], kinds[p]) for p in picked])
        times.append(1e3 * (time.perf_counter() - began))
    if accelerator.is_main_process:
        print(f"loss {loss.item():.5f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    accelerator.end_training()


if __name__ == "__main__":
    main()
