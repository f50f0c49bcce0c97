import os

import torch


class Keeper:
    """Keeps the best weights on disk, by the smoothed loss."""

    def __init__(self, folder, model, optimizer, smooth=0.9):
        self.folder, self.model, self.optimizer, self.smooth = folder, model, optimizer, smooth
        self.mean = self.best = None

    def see(self, loss):
        value = float(loss)
        self.mean = value if self.mean is None else self.smooth * self.mean + (1 - self.smooth) * value
        if self.best is None or self.mean < self.best:
            self.best = self.mean
            self.write()

    def write(self):
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "loss": self.best}
        torch.save(state, os.path.join(self.folder, "best.part"))  #: LINE
        os.replace(os.path.join(self.folder, "best.part"), os.path.join(self.folder, "best.pt"))
