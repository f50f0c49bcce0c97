"""Loss kept for each kind of token, for the report at the end."""
import torch


class TokenLoss:
    def __init__(self, vocabulary):
        self.total = torch.zeros(vocabulary)
        self.count = torch.zeros(vocabulary)

    def update(self, targets, losses):
        targets, losses = targets.flatten(), losses.flatten()
        self.total += torch.bincount(targets, losses, minlength=len(self.total))
        self.count += torch.bincount(targets, minlength=len(self.count))

    def worst(self, n=5):
        means = [(t / c, i) for i, (t, c) in enumerate(zip(self.total.tolist(), self.count.tolist())) if c]
        return sorted(means, reverse=True)[:n]
