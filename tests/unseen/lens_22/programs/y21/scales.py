from torch.nn import functional as F


def scale_loss(guess, truth, scales=(1, 2, 4)):
    """Sum of the losses at several scales, so that the long slopes count as well."""
    total = 0
    for scale in scales:
        coarse, aim = F.avg_pool2d(guess, scale), F.avg_pool2d(truth, scale)
        total = total + F.l1_loss(coarse, aim) * scale
    return total / len(scales)
