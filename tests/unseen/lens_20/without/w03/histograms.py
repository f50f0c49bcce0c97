import os

import lightning as L
import numpy as np
from lightning.pytorch.utilities import rank_zero_only


class Histograms(L.Callback):
    """Keeps how the weights of each layer are spread, to look at later."""

    def __init__(self, folder, every=30):
        self.path, self.every = os.path.join(folder, "weights.txt"), every

    @rank_zero_only
    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        if index % self.every:
            return
        with open(self.path, "a") as file:
            for name, p in module.named_parameters():
                weights = p.detach().numpy()
                counts, edges = np.histogram(weights, bins=64)
                print(index, name, *counts, edges[0], edges[-1], np.median(weights), file=file)
