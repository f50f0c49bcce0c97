import os

import lightning as L
from lightning.pytorch.utilities import rank_zero_only


class Diary(L.Callback):
    """The losses of the first rank, written down at the end."""

    def __init__(self, folder):
        self.path, self.losses = os.path.join(folder, "losses.txt"), []

    @rank_zero_only
    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        self.losses.append(outputs["loss"].detach())

    @rank_zero_only
    def on_train_end(self, trainer, module):
        with open(self.path, "w") as file:
            for step, loss in enumerate(self.losses):
                print(step, f"{loss.item():.6f}", file=file)
