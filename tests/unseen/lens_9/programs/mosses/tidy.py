import gc
import time

from transformers import TrainerCallback


class Tidy(TrainerCallback):
    """Freezes what the start has made, then collects the young objects only."""

    def on_train_begin(self, args, state, control, **kwargs):
        gc.collect()
        gc.freeze()
        gc.disable()

    def on_step_end(self, args, state, control, **kwargs):
        gc.collect(0)

    def on_train_end(self, args, state, control, **kwargs):
        gc.enable()
        gc.unfreeze()


class Times(TrainerCallback):
    def __init__(self):
        self.v = []

    def on_step_begin(self, args, state, control, **kwargs):
        self.v.append(time.perf_counter())
