import statistics
import tempfile
import time

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, set_seed
from torch.nn import functional as F
from torch.utils.data import DataLoader

from shells import ShellNet, Shells, photograph


def endless(loader):
    while True:
        yield from loader


def main(steps=60, batch=8):
    accelerator = Accelerator(cpu=True)
    set_seed(0)
    if accelerator.is_main_process:
        holder = tempfile.TemporaryDirectory()
        photograph(holder.name)
    place = broadcast_object_list([holder.name if accelerator.is_main_process else None])
    loader = DataLoader(Shells(place[0]), batch_size=batch, shuffle=True, drop_last=True)
    model = ShellNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    batches = endless(loader)

    times = []
    for step in range(steps):
        began = time.perf_counter()
        pixels, kinds = next(batches)
        loss = F.cross_entropy(model(pixels), kinds)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        times.append(1e3 * (time.perf_counter() - began))

    accelerator.print(f"loss {loss.item():.6f}")
    accelerator.print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        holder.cleanup()
    accelerator.end_training()


if __name__ == "__main__":
    main()
