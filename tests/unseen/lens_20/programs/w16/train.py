import statistics
import time

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.nn import functional as F
from torch.utils.data import DataLoader

from signs import Roads, Walker
from tally import Tally


def main(steps=60, batch=24):
    accelerator = Accelerator(cpu=True)
    set_seed(0)
    model = Walker()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, fused=True)
    loader = DataLoader(Roads(count=batch * 2 * (steps + 2)), batch, shuffle=True, drop_last=True, collate_fn=tuple)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    tally = Tally(accelerator)
    batches = iter(loader)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        walk, after = next(batches)
        logits = model(walk)
        loss = F.cross_entropy(logits.flatten(0, 1), after.flatten())
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        tally.add(logits, after)
        times.append(1e3 * (time.perf_counter() - began))
    share = tally.share()
    accelerator.print(f"loss {loss.item():.5f} right {share:.5f}")
    accelerator.print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    accelerator.end_training()


if __name__ == "__main__":
    main()
