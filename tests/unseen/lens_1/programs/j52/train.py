import time

import accel
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def augment(images):
    """Crops and colour on the host."""
    for _ in range(3):
        images = torch.roll(images, (1, 2), (2, 3)) * 0.9 + images.mean((2, 3), keepdim=True) * 0.1
        images = nn.functional.avg_pool2d(images, 3, 1, 1)
    return images


@torch.no_grad()
def top1(logits, labels):
    guess = logits.detach().argmax(1)
    return (guess == labels).sum()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    net = nn.Sequential(nn.AvgPool2d(8), nn.Flatten(), nn.Linear(48, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 10))
    ddp = DDP(accel.attach(net, 4.0, 8.0))
    opt = torch.optim.SGD(ddp.parameters(), lr=0.05)
    steps = 30
    correct = torch.zeros(())
    for step in range(steps):
        if step == 3:
            t0 = time.perf_counter()
        raw = torch.rand(64, 3, 32, 32)
        labels = torch.randint(0, 10, (64,))
        batch = accel.to_device(augment(raw))
        out = ddp(batch)
        loss = nn.functional.cross_entropy(out, labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        correct += top1(out, labels)
    accel.stream.synchronize()
    t1 = time.perf_counter()
    if rank == 0:
        print(f"accuracy {correct.item() / steps / 64:.3f}, {(t1 - t0) * 1e3 / (steps - 3):.2f} ms/step", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
