"""Scores of the findings."""
from sklearn.metrics import roc_auc_score


def mean_auc(labels, logits):
    y, s = labels.cpu().numpy(), logits.detach().sigmoid().cpu().numpy()
    return sum(roc_auc_score(y[:, k], s[:, k]) for k in range(y.shape[1])) / y.shape[1]
