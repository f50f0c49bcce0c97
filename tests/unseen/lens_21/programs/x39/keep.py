import os

import torch
from torch.distributed.tensor import DTensor


@torch.no_grad()
def keep(model, folder, rank):
    """Writes the weights as one file; all ranks have to take part, as each has only its own part of them."""
    whole = {}
    for name, p in model.named_parameters():
        whole[name] = p.full_tensor() if isinstance(p, DTensor) else p.detach()
    if rank == 0:
        torch.save(whole, os.path.join(folder, "sky.pt"))
