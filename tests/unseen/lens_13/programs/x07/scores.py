import torch
import torch.distributed as dist


def class_accuracy(pred, target, classes):
    result = {}
    for c in range(classes):
        mask = target == c
        hits = (pred[mask] == c).sum()
        seen = mask.sum()
        dist.all_reduce(hits)  #: LINE
        dist.all_reduce(seen)
        result[c] = hits.item() / max(seen.item(), 1)
    return result
