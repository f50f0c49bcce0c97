import statistics
import time

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.nn import functional as F
from torch.utils.data import DataLoader

from cases import Cases, Tally, desk_net


def main(steps=60, batch=320, every=30):
    accelerator = Accelerator(cpu=True)
    set_seed(0)
    model = desk_net()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4, fused=True)
    loader = DataLoader(Cases(2 * batch * 21), batch, shuffle=True, drop_last=True, collate_fn=tuple)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    tally, shares, times, step = Tally(accelerator), [], [], 0
    while step < steps:
        batches = iter(loader)
        while step < steps:
            began = time.perf_counter()
            batch = next(batches, None)
            if batch is None:
                break
            counts, desk = batch
            logits = model(counts)
            loss = F.cross_entropy(logits, desk)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            tally.add(logits, desk)
            step += 1
            if step % every == 0:
                shares.append(f"{tally.share():.4f}")
            times.append(1e3 * (time.perf_counter() - began))
    accelerator.print(f"loss {loss.item():.5f} right {shares}")
    accelerator.print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    accelerator.end_training()


if __name__ == "__main__":
    main()
