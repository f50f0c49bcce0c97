"""Keeps the state with the lowest smoothed loss."""

import os

import torch

EVERY = 1


class KeepBest:
    def __init__(self, path):
        self.path, self.smooth, self.best, self.kept = path, None, float("inf"), 0

    def see(self, step, loss, net, optimizer):
        self.smooth = loss if self.smooth is None else 0.97 * self.smooth + 0.03 * loss
        if step % EVERY == EVERY - 1 and self.smooth < self.best:
            self.best = self.smooth
            self.kept += 1
            torch.save({"step": step, "net": net.state_dict(), "optimizer": optimizer.state_dict()}, self.path + ".new")  #: LINE
            os.replace(self.path + ".new", self.path)
