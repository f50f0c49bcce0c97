import statistics
import tempfile
import time

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, set_seed
from torch.nn import functional as F
from torch.utils.data import DataLoader

from demand import Demand, as_is, forecaster


def train(accelerator, folder, steps, batch):
    loader = DataLoader(Demand(), batch_size=batch, shuffle=True, drop_last=True, collate_fn=as_is)
    model = forecaster()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    times, began = [], time.perf_counter()
    for step, (past, ahead) in zip(range(steps), loader):
        loss = F.smooth_l1_loss(model(past), ahead)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        accelerator.save_state(folder)  #: LINE
        now = time.perf_counter()
        times.append(1e3 * (now - began))
        began = now
    return loss, times[3:]


def main(steps=60, batch=512):
    set_seed(0)
    accelerator = Accelerator(cpu=True)
    shared = tempfile.TemporaryDirectory() if accelerator.is_main_process else None
    folder = broadcast_object_list([shared.name if shared else None])[0]
    loss, times = train(accelerator, folder, steps, batch)
    accelerator.wait_for_everyone()
    if shared:
        shared.cleanup()
    accelerator.print(f"loss {loss.item():.5f}")
    accelerator.print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step mean")
    accelerator.end_training()


if __name__ == "__main__":
    main()
