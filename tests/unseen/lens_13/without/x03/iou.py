import torch


def mean_iou(pred, target, classes):
    b = len(pred)
    image = torch.arange(b).view(b, 1, 1)
    cells = (image * classes + target) * classes + pred
    m = torch.bincount(cells.flatten(), minlength=b * classes * classes).view(b, classes, classes).float()
    inter = m.diagonal(dim1=1, dim2=2)
    union = m.sum(1) + m.sum(2) - inter
    return (inter[union > 0] / union[union > 0]).mean().item()
