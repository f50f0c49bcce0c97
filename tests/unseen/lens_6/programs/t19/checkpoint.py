"""Checkpoints."""
import os
import tempfile

import torch


class Checkpoint:
    def __init__(self, model, optimizer, every):
        self.model, self.optimizer, self.every = model, optimizer, every
        self.path = os.path.join(tempfile.mkdtemp(prefix="checkpoint_"), "last.pt")

    def after_step(self, step):
        if step % self.every == 0:
            state = {"step": step, "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
            torch.save(state, self.path)  #: LINE
