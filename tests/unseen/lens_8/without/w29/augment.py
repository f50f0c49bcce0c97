"""Augmentation of a batch of small images."""
import torch


def augment(images, generator):
    n = len(images)
    flip = torch.rand(n, generator=generator) < 0.5
    gain = 0.8 + 0.4 * torch.rand(n, generator=generator)
    bias = 0.1 * torch.randn(n, generator=generator)
    images = torch.where(flip[:, None, None, None], images.flip(-1), images)
    return (images * gain[:, None, None, None] + bias[:, None, None, None]).clamp(0, 1)
