import lightning as L
import psutil


class Footprint(L.Callback):
    """How much memory the job holds, and how much a step adds to it. We look for a leak."""

    def __init__(self):
        self.process = psutil.Process()
        self.peak, self.grown = 0, []

    def held(self):
        return self.process.memory_full_info().uss  #: LINE

    def on_train_batch_start(self, trainer, module, batch, index):
        self.before = self.held()

    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        after = self.held()
        self.grown.append(after - self.before)
        self.peak = max(self.peak, after)
