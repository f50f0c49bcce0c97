"""Denoiser for microscope pictures (two processes, DDP)."""
import logging

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

import watch
from pace import Pace

STEPS = 60


def denoiser(width=32, depth=4):
    layers = [nn.Conv2d(1, width, 3, padding=1), nn.ReLU()]
    for _ in range(depth):
        layers += [nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv2d(width, 1, 3, padding=1))


def main():
    logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = denoiser()
    watch.attach(net)
    net = DDP(net)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    gen = torch.Generator().manual_seed(rank)
    pace = Pace()
    for step in range(STEPS):
        clean = torch.rand(6, 1, 48, 48, generator=gen)
        noisy = clean + 0.1 * torch.randn(clean.shape, generator=gen)
        loss = nn.functional.mse_loss(net(noisy), noisy - clean)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 20 == 0 and rank == 0:
            logging.info("step %d loss %.5f", step, loss.item())
        pace.tick()
    if rank == 0:
        pace.report()
    del net
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
