import time

import lightning as L
import torch


class Accuracy(L.Callback):
    """How many of the training tiles are told right."""

    def __init__(self):
        self.shares = []

    @torch.no_grad()
    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        tiles, shop = batch
        guess = outputs["guess"]
        self.shares.append((guess.argmax(1) == shop).float().mean())


class Laps(L.Callback):
    def __init__(self):
        self.ends = []

    def on_train_batch_end(self, trainer, module, *rest):
        self.ends.append(time.perf_counter())

    def times(self):
        return [1e3 * (end - begin) for begin, end in zip(self.ends, self.ends[1:])]
