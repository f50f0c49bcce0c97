import torch
from torch.nn import functional as F


def inspector_loss(loom, inspector, real, width=32):
    fake = loom(torch.randn(len(real), width))
    return F.softplus(-inspector(real)).mean() + F.softplus(inspector(fake)).mean()  #: LINE


def loom_loss(loom, inspector, count, width=32):
    fake = loom(torch.randn(count, width))
    return F.softplus(-inspector(fake)).mean()
