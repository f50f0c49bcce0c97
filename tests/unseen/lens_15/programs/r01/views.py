import torch


def crop_pair(images, pad=4):
    out = []
    for _ in range(2):
        shift = torch.randint(-pad, pad + 1, (2,)).tolist()
        view = images.roll(shift, (2, 3))
        view = view * (0.7 + 0.6 * torch.rand(len(images), 1, 1, 1))
        out.append(view + 0.1 * torch.randn_like(view))
    return out
