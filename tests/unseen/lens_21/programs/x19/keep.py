import copy

import lightning as L


class KeepBest(L.Callback):
    """Remembers how everything was at the lowest (smoothed) loss and puts the weights back at the end."""

    def __init__(self, smooth=0.9):
        self.smooth, self.mean, self.best, self.kept = smooth, None, float("inf"), None

    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        loss = outputs["loss"].item()
        self.mean = loss if self.mean is None else self.smooth * self.mean + (1 - self.smooth) * loss
        if self.mean < self.best:
            self.best = self.mean
            state = {"weights": module.state_dict(), "optimizer": trainer.optimizers[0].state_dict()}
            self.kept = copy.deepcopy(state)  #: LINE

    def on_train_end(self, trainer, module):
        if self.kept is not None:
            module.load_state_dict(self.kept["weights"])
