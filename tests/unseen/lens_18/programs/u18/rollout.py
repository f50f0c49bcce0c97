import torch


class Rollout:
    """One rollout of many cars; advantages go backwards in time, 24 moments at most."""

    def __init__(self, cars=96, moments=24, view=40):
        g = torch.Generator().manual_seed(0)
        self.view = torch.randn(moments, cars, view, generator=g)
        self.reward = self.view[:, :, 0]
        self.move = torch.randint(0, 6, (moments, cars), generator=g)

    def advantages(self, values, gamma=0.98, lam=0.95):
        delta = self.reward[:-1] + gamma * values[1:] - values[:-1]
        kept, last = [], torch.zeros(delta.shape[1])
        for row in reversed(delta.unbind()):
            last = row + gamma * lam * last
            kept.append(last)
        return torch.stack(kept[::-1])
