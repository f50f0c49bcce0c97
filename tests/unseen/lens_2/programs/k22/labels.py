import time
import torch


def prepare(step):
    """Labels come from a service; they need nothing of the model."""
    time.sleep(0.036)
    return torch.randint(0, 7, (32,), generator=torch.Generator().manual_seed(step))
