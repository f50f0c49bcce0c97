import os

import torch


class BlackBox:
    """Keeps what the last step was fed with, so that a crash or a NaN can be played again."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "last_step.pt")

    def record(self, step, **batch):
        state = {"step": step, "random": torch.get_rng_state(), "batch": batch}
        torch.save(state, self.path + ".part")
        os.replace(self.path + ".part", self.path)
