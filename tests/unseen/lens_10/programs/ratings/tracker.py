import torch


class UserLoss:
    """Mean loss of every user, to see whom we serve badly."""

    def __init__(self, users):
        self.total = [0.0] * users
        self.count = [0] * users

    def update(self, users, losses):
        for user, loss in zip(users, losses):
            self.total[user.item()] += loss.item()
            self.count[user.item()] += 1

    def worst(self, k=5):
        mean = torch.tensor(self.total) / torch.tensor(self.count).clamp(min=1)
        return mean.topk(k).indices.tolist()
