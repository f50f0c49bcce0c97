import math
import os

import torch
import torch.distributed as dist


class Replay:
    """When the loss breaks, keeps the batch that did it and gives up."""

    def __init__(self, folder):
        self.folder = folder

    def watch(self, step, loss, batch):
        if math.isfinite(loss):
            return
        if dist.get_rank() == 0:
            torch.save({"step": step, "random": torch.get_rng_state(), "batch": batch}, os.path.join(self.folder, f"broken_{step}.pt"))
        raise FloatingPointError(f"loss {loss} in step {step}")
