import logging
import statistics
import tempfile
import time

import torch
from accelerate import Accelerator
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from progress import Progress
from regnet import RegNet

logging.disable(logging.INFO)


def main(steps=60):
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    labels = torch.randint(10, (1600,))
    images = torch.randn(10, 3, 32, 32)[labels] + torch.randn(1600, 3, 32, 32)
    loader = DataLoader(TensorDataset(images, labels), batch_size=24, shuffle=True, drop_last=True)
    model = RegNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    times = []
    with tempfile.TemporaryDirectory() as folder:
        progress = Progress(accelerator, folder)
        start = time.perf_counter()
        for step, (x, y) in enumerate(loader, 1):
            loss = F.cross_entropy(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            progress.after(step, loss)
            end = time.perf_counter()
            times.append(1e3 * (end - start))
            start = end
            if step == steps:
                break
    times = times[3:]
    accelerator.print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
    accelerator.end_training()


main()
