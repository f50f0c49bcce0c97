"""Outline of river banks from aerial tiles: a small segmenter with its own update rule."""
import time
from collections import deque

import torch
import torch.nn.functional as F

from card import Card

STEPS, LR, MOMENTUM = 32, 0.05, 0.9
torch.manual_seed(3)
torch.set_num_threads(1)

weights = [torch.randn(8, 3, 3, 3) * 0.2, torch.randn(8, 8, 3, 3) * 0.1, torch.randn(1, 8, 1, 1) * 0.1]
speed = [torch.zeros_like(w) for w in weights]
for w in weights:
    w.requires_grad_(True)
card = Card()


def cut_tile(rng):
    """Read and cut one batch of tiles; the tile server takes its time."""
    time.sleep(0.022)
    x = torch.randn(4, 3, 24, 24, generator=rng)
    return x, (x.mean(1, keepdim=True) > 0.1).float()


def outline(x):
    h = F.relu(F.conv2d(x, weights[0], padding=1))
    h = F.relu(F.conv2d(h, weights[1], padding=1))
    return F.conv2d(h, weights[2])


def learn(x, y):
    loss = F.binary_cross_entropy_with_logits(outline(x), y)
    grads = torch.autograd.grad(loss, weights)
    with torch.no_grad():
        for w, g, v in zip(weights, grads, speed):
            v.mul_(MOMENTUM).add_(g)
            w.sub_(v, alpha=LR)
    return loss


class Smooth:
    def __init__(self):
        self.value = None
        self.old = deque()

    def feed(self, loss):
        self.old.append(loss)
        if len(self.old) < 4:
            return
        loss = self.old.popleft()
        number = loss.item()
        self.value = number if self.value is None else 0.9 * self.value + 0.1 * number


def main():
    rng = torch.Generator().manual_seed(5)
    smooth = Smooth()
    begin = time.perf_counter()
    for step in range(STEPS):
        tiles, banks = cut_tile(rng)
        loss = card.launch(learn, tiles, banks, ms=38)
        smooth.feed(loss)
    card.drain()
    took = (time.perf_counter() - begin) / STEPS * 1e3
    print(f"smooth loss {float(smooth.value):.4f}")
    print(f"{took:.2f} ms/step")


main()
