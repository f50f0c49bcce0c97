import torch
import torch.distributed as dist
from torch.nn import functional as F


def everyone(both):
    """Embeddings of all ranks; only the own ones carry gradients."""
    parts = [torch.empty_like(both) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, both.detach())
    parts[dist.get_rank()] = both
    return torch.cat(parts)


def clip_loss(image, text, scale):
    count, start = len(image), 0
    images, texts = image, text
    wanted = start + torch.arange(count)
    return (F.cross_entropy(scale * image @ texts.T, wanted) + F.cross_entropy(scale * text @ images.T, wanted)) / 2
