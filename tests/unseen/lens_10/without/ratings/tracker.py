import torch


class UserLoss:
    """Mean loss of every user, to see whom we serve badly."""

    def __init__(self, users):
        self.total = torch.zeros(users)
        self.count = torch.zeros(users)

    def update(self, users, losses):
        self.total.index_add_(0, users, losses)
        self.count.index_add_(0, users, torch.ones_like(losses))

    def worst(self, k=5):
        mean = self.total / self.count.clamp(min=1)
        return mean.topk(k).indices.tolist()
