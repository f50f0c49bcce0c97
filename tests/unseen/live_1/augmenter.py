"""Contrastive pre-training; strong augmentations for the 'hard' shard."""
import math
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def light(img):
    return img.flip(-1) + 0.01 * torch.randn_like(img)


def elastic(img, strength=3.0):
    out = img.clone()
    h, w = img.shape[-2:]
    for i in range(h):
        for j in range(w):
            di = int(strength * math.sin(2 * math.pi * j / w))
            dj = int(strength * math.cos(2 * math.pi * i / h))
            out[:, i, j] = img[:, (i + di) % h, (j + dj) % w]  #: LINE
    return out


class Shard:
    def __init__(self, rank, size=8):
        self.rank = rank
        self.size = size
        self.aug = elastic if rank == 3 else light

    def __call__(self, step):
        g = torch.Generator().manual_seed(step * 100 + self.rank)
        imgs = torch.randn(self.size, 3, 32, 32, generator=g)
        return imgs, torch.stack([self.aug(im) for im in imgs])


def encoder():
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, stride=4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(32)
    )


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = encoder()
    net(torch.zeros(1, 3, 32, 32))
    net = DDP(net)
    opt = torch.optim.SGD(net.parameters(), 0.05)
    shard = Shard(rank)
    t0 = time.perf_counter()
    for step in range(360):
        a, b = shard(step)
        za, zb = net(torch.cat([a, b])).chunk(2)
        loss = torch.nn.functional.cross_entropy(za @ zb.t(), torch.arange(len(a)))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 10 == 9:
            print(f"step {step + 1}: {(time.perf_counter() - t0) / (step + 1):.3f} s/step", flush=True)
    dist.destroy_process_group()


main()
