import time

import lightning as L


class Histograms(L.Callback):
    """Weights and gradients for the board."""

    def on_after_backward(self, trainer, module):
        if trainer.global_step % 100:
            return
        board = trainer.logger.experiment
        for name, p in module.named_parameters():
            board.add_histogram(f"weights/{name}", p, trainer.global_step)
            if p.grad is not None:
                board.add_histogram(f"gradients/{name}", p.grad, trainer.global_step)


class Clock(L.Callback):
    def __init__(self):
        self.ends = []

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.ends.append(time.perf_counter())
