from pathlib import Path

import torch


class BestKeeper:
    """Keeps the best state seen so far."""

    def __init__(self, folder):
        self.path = Path(folder) / "best.pt"
        self.best = float("inf")
        self.mean = None

    def offer(self, step, loss, model, opt):
        self.mean = loss if self.mean is None else 0.9 * self.mean + 0.1 * loss
        if self.mean < self.best:
            self.best = self.mean
            torch.save({"step": step, "model": model.state_dict(), "opt": opt.state_dict(), "loss": self.mean}, self.path)
