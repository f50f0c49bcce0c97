import os

import torch
import torch.distributed as dist


def save(folder, step, model, opt):
    if dist.get_rank() != 0:
        return
    state = {"step": step, "model": model.module.state_dict(), "opt": opt.state_dict()}
    path = os.path.join(folder, "last.pt")
    torch.save(state, path + ".part")  #: LINE
    os.replace(path + ".part", path)
