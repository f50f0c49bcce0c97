import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from meter import Meter
from vgg import VGG


def data(count=4800, classes=16):
    g = torch.Generator().manual_seed(0)
    labels = torch.randint(classes, (count,), generator=g)
    base = torch.randn(classes, 3, 32, 32, generator=g)
    return TensorDataset(base[labels] + torch.randn(count, 3, 32, 32, generator=g), labels)


def main(steps=60):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    dataset = data()
    loader = DataLoader(dataset, batch_size=32, sampler=DistributedSampler(dataset), drop_last=True)
    model, meter = DistributedDataParallel(VGG()), Meter()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    times, start = [], time.perf_counter()
    for step, (images, labels) in enumerate(loader, 1):
        logits = model(images)
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meter.add(loss, (logits.argmax(1) == labels).float().mean())
        if step % 20 == 0:
            mean, accuracy = meter.flush()
            if rank == 0:
                print(f"step {step}: loss {mean:.4f}, accuracy {accuracy:.3f}")
        end = time.perf_counter()
        times.append(1e3 * (end - start))
        start = end
        if step == steps:
            break
    if rank == 0:
        times = times[3:]
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
    dist.destroy_process_group()


main()
