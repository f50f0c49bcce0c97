import torch


def hard_examples(losses, limit):
    keep = (losses > limit).to(losses.dtype)
    return (losses * keep).sum() / keep.sum().clamp(min=1)
