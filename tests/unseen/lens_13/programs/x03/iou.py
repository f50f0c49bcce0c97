import torch


def mean_iou(pred, target, classes):
    scores = []
    for p, t in zip(pred, target):
        for c in range(classes):
            inter = ((p == c) & (t == c)).sum().item()  #: LINE
            union = ((p == c) | (t == c)).sum().item()
            if union > 0:
                scores.append(inter / union)
    return sum(scores) / len(scores)
