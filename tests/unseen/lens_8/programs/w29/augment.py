"""Augmentation of a batch of small images."""
import torch


def augment(images, generator):
    n = len(images)
    flip = torch.rand(n, generator=generator) < 0.5
    gain = 0.8 + 0.4 * torch.rand(n, generator=generator)
    bias = 0.1 * torch.randn(n, generator=generator)
    out = torch.empty_like(images)
    for i in range(n):
        image = images[i].flip(-1) if flip[i] else images[i]
        out[i] = (image * gain[i] + bias[i]).clamp(0, 1)  #: LINE
    return out
