import os

import torch


class Checkpoints:
    def __init__(self, accelerator, folder, every):
        self.accelerator, self.every = accelerator, every
        self.path = os.path.join(folder, "last.pt")

    def maybe_save(self, step, model, optimizer, schedule):
        if (step + 1) % self.every:
            return
        state = {
            "step": step,
            "model": self.accelerator.get_state_dict(model),
            "optimizer": optimizer.state_dict(),
            "schedule": schedule.state_dict(),
        }
        self.accelerator.save(state, self.path)
