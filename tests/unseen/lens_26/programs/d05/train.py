import os
import statistics
import tempfile
import time

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.nn import functional as F
from torch.utils.data import DataLoader

from lateness import Guess, Progress, Trains


def main(steps=60, batch=512):
    set_seed(0)
    accelerator = Accelerator(cpu=True)
    loader = DataLoader(Trains(), batch_size=batch, shuffle=True, drop_last=True, collate_fn=lambda got: got)
    model = Guess()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    with tempfile.TemporaryDirectory() as folder:
        progress = Progress(folder)
        times, began = [], time.perf_counter()
        for step, (late, facts, end) in zip(range(steps), loader):
            loss = F.mse_loss(model(late, facts), end)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            if accelerator.is_main_process:
                progress.save(step, seen=(step + 1) * batch * accelerator.num_processes)
            now = time.perf_counter()
            times.append(1e3 * (now - began))
            began = now
        if accelerator.is_main_process:
            torch.save(accelerator.get_state_dict(model), os.path.join(folder, "weights.pt"))
    accelerator.print(f"loss {loss.item():.5f}")
    accelerator.print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    accelerator.end_training()


if __name__ == "__main__":
    main()
