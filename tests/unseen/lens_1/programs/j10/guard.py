import torch


def drop_bad(params, norm):
    ok = torch.isfinite(norm)
    for p in params:
        p.grad = torch.where(ok, p.grad, torch.zeros(())).as_subclass(torch.Tensor)
