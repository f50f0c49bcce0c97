import statistics
import time

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

from distill import Distiller
from nets import ResNet


def main(steps=60):
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    labels = torch.randint(10, (1600,))
    images = torch.randn(10, 3, 32, 32)[labels] + 0.7 * torch.randn(1600, 3, 32, 32)
    loader = DataLoader(TensorDataset(images, labels), batch_size=20, shuffle=True, drop_last=True)
    student, teacher = ResNet(32, 3), ResNet(32, 4)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    student, optimizer, loader = accelerator.prepare(student, optimizer, loader)
    model = Distiller(student, teacher)
    model.train()
    times, start = [], time.perf_counter()
    for x, y in loader:
        loss = model(x, y)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        end = time.perf_counter()
        times.append(1e3 * (end - start))
        start = end
        if len(times) == steps:
            break
    times = times[3:]
    accelerator.print(f"loss {loss.item():.3f}")
    accelerator.print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
    accelerator.end_training()


main()
