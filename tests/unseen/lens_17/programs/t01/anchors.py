import torch


def grid(side=64, stride=8, sizes=(10.0, 20.0)):
    """Anchor boxes (x0, y0, x1, y1) on a grid."""
    centre = torch.arange(stride / 2, side, stride)
    y, x = torch.meshgrid(centre, centre, indexing="ij")
    middle = torch.stack([x, y], -1).view(-1, 1, 2)
    half = torch.tensor(sizes).view(1, -1, 1) / 2
    return torch.cat([middle - half, middle + half], -1).view(-1, 4)


def overlap(box, anchors):
    low = torch.maximum(box[:2], anchors[:, :2])
    high = torch.minimum(box[2:], anchors[:, 2:])
    shared = (high - low).clamp(min=0).prod(1)
    area = (anchors[:, 2:] - anchors[:, :2]).prod(1)
    return shared / (area + (box[2:] - box[:2]).prod() - shared)


def match(boxes, kinds, anchors, least=0.3):
    """For each picture and anchor: the kind (0 is background) and the box to aim at."""
    wanted = torch.zeros(len(boxes), len(anchors), dtype=torch.long)
    aims = torch.zeros(len(boxes), len(anchors), 4)
    best = torch.full((len(boxes), len(anchors)), least)
    for i in range(len(boxes)):
        for k in range(boxes.shape[1]):
            share = overlap(boxes[i, k], anchors)  #: LINE
            better = share > best[i]
            best[i] = torch.where(better, share, best[i])
            wanted[i] = torch.where(better, kinds[i, k], wanted[i])
            aims[i] = torch.where(better[:, None], boxes[i, k] - anchors, aims[i])
    return wanted, aims
