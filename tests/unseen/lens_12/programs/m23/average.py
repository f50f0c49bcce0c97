import copy

import torch


class WeightAverage:
    """Keeps a smoothed copy of the weights for sampling."""

    def __init__(self, model, decay=0.995):
        self.shadow = copy.deepcopy(model).requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        mine, theirs = self.shadow.state_dict(), model.state_dict()
        for key in mine:
            mine[key].copy_(self.decay * mine[key] + (1 - self.decay) * theirs[key])  #: LINE
