"""The teacher's side: passes what it is sent to the big model's service (80 ms for an answer) and sends the marks back."""

import time

import torch
import torch.distributed as dist
from torch import nn


class Service:
    def __init__(self, width, classes):
        torch.manual_seed(9)
        self.net = nn.Sequential(nn.Linear(width, 256), nn.GELU(), nn.Linear(256, classes))

    @torch.no_grad()
    def ask(self, x):
        time.sleep(0.08)
        return self.net(x)


def serve(steps, batch, width, classes):
    service = Service(width, classes)
    x = torch.empty(batch, width)
    for _ in range(steps):
        dist.recv(x, src=0)
        dist.send(service.ask(x), dst=0)
