import torch


def hard_examples(losses, limit):
    idx = torch.nonzero(losses > limit).squeeze(1)  #: LINE
    return losses.index_select(0, idx).sum() / max(len(idx), 1)
