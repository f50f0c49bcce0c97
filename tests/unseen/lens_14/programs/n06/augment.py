import torch
import torch.nn.functional as F

MEAN = torch.tensor([0.49, 0.48, 0.45]).view(3, 1, 1)
STD = torch.tensor([0.25, 0.24, 0.26]).view(3, 1, 1)


def augment(images, pad=4):
    out = []
    size = images.shape[-1]
    for image in images:  #: LINE
        if torch.rand(1) < 0.5:
            image = image.flip(-1)
        image = F.pad(image, (pad, pad, pad, pad))
        top, left = torch.randint(0, 2 * pad + 1, (2,)).tolist()
        image = image[:, top:top + size, left:left + size]
        image = image * (0.8 + 0.4 * torch.rand(1)) + 0.1 * torch.randn(1)
        out.append((image - MEAN) / STD)
    return torch.stack(out)
