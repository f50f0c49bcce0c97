import time

import torch
from lightning.pytorch.callbacks import Callback

torch.set_printoptions(precision=3, profile="full", linewidth=200)


class Peek(Callback):
    """Look at what the model says, to see that it learns."""

    def __init__(self, path):
        self.out = open(path, "w")

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        print(f"--- batch {batch_idx}", outputs["probs"], sep="\n", file=self.out, flush=True)

    def on_fit_end(self, trainer, module):
        self.out.close()


class StepTimer(Callback):
    def __init__(self):
        self.ends = []

    def on_train_batch_end(self, *_, **__):
        self.ends.append(time.perf_counter())

    def report(self):
        ms = torch.tensor(self.ends, dtype=torch.double).diff()[3:] * 1e3
        return f"{ms.quantile(0.5).item():.2f} ms/step median, {ms.mean().item():.2f} ms/step"
