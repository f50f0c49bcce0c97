import os
import statistics
import tempfile
from time import perf_counter

import numpy as np
import torch
from accelerate import Accelerator
from PIL import Image

from denoise import Denoiser, Schedule, sample


def save_grid(images, path):
    tiles = ((images + 1) * 127.5).byte().permute(0, 2, 3, 1).numpy()
    Image.fromarray(np.concatenate(list(tiles), axis=1)).save(path)


def main(steps=64, batch=16):
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(5)
    pictures = torch.rand(400, 3, 24, 24) * 2 - 1
    schedule = Schedule()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(pictures), batch_size=batch, shuffle=True)
    model = Denoiser()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, opt, loader = accelerator.prepare(model, opt, loader)
    times, step = [], 0
    with tempfile.TemporaryDirectory() as folder:
        while step < steps:
            for (x,) in loader:
                begin = perf_counter()
                t = torch.randint(schedule.length, (len(x),))
                noise = torch.randn_like(x)
                loss = torch.nn.functional.mse_loss(model(schedule.noisy(x, t, noise), t.float()), noise)
                opt.zero_grad()
                accelerator.backward(loss)
                opt.step()
                if step == steps - 1:
                    images = sample(model, schedule)
                    save_grid(images, os.path.join(folder, f"{step:05d}.png"))
                times.append(1e3 * (perf_counter() - begin))
                step += 1
                if step == steps:
                    break
    times = times[3:]
    accelerator.print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
