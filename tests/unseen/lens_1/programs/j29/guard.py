import torch


def drop_bad(params, norm):
    if not torch.isfinite(norm):  #: LINE
        for p in params:
            p.grad = None
