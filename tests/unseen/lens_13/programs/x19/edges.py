import torch


def dropped(edges, count, keep):
    kept = edges[:, torch.rand(edges.shape[1]) < keep]
    both = torch.cat([kept, kept.flip(0), torch.arange(count).expand(2, -1)], 1)
    degree = torch.bincount(both[0], minlength=count).float()
    scale = degree.rsqrt()
    return both, scale[both[0]] * scale[both[1]]
