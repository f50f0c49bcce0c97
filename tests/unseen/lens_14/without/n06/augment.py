import torch
import torch.nn.functional as F

MEAN = torch.tensor([0.49, 0.48, 0.45]).view(3, 1, 1)
STD = torch.tensor([0.25, 0.24, 0.26]).view(3, 1, 1)


def augment(images, pad=4):
    n, _, size, _ = images.shape
    images = torch.where(torch.rand(n, 1, 1, 1) < 0.5, images.flip(-1), images)
    padded = F.pad(images, (pad, pad, pad, pad))
    rows = torch.randint(0, 2 * pad + 1, (n, 1, 1)) + torch.arange(size)[:, None]
    cols = torch.randint(0, 2 * pad + 1, (n, 1, 1)) + torch.arange(size)
    images = padded[torch.arange(n)[:, None, None], :, rows, cols].permute(0, 3, 1, 2)
    images = images * (0.8 + 0.4 * torch.rand(n, 1, 1, 1)) + 0.1 * torch.randn(n, 1, 1, 1)
    return ((images - MEAN) / STD).contiguous()
