import statistics
import time

import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader

from scenes import Scenes
from scores import RunningIoU
from unet import UNet


def main(steps=60):
    torch.manual_seed(0)
    loader = DataLoader(Scenes(), batch_size=10, shuffle=True, drop_last=True)
    model, iou = UNet(), RunningIoU(8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    times, begin = [], time.perf_counter()
    for step, (images, masks) in enumerate(loader):
        logits = model(images)
        loss = F.cross_entropy(logits, masks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        iou.add(logits, masks)
        if step % 20 == 19:
            print(f"step {step + 1}: loss {loss.item():.3f}, mIoU {iou.mean():.3f}")
        end = time.perf_counter()
        times.append(1e3 * (end - begin))
        begin = end
        if len(times) == steps:
            break
    times = times[3:]
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
