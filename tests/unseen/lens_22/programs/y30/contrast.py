import torch
from torch import nn
from torch.nn import functional as F


class Contrast(nn.Module):
    """Two views of the same shard are to be more alike than those of different ones."""

    def __init__(self, temperature=0.2):
        super().__init__()
        self.temperature = temperature

    def forward(self, a, b):
        z = torch.cat([a, b])
        count, losses = len(a), []
        for i in range(2 * count):
            likeness = F.cosine_similarity(z[i].unsqueeze(0), z) / self.temperature  #: LINE
            others = torch.cat([likeness[:i], likeness[i + 1:]])
            losses.append(others.logsumexp(0) - likeness[(i + count) % (2 * count)])
        return torch.stack(losses).mean()
