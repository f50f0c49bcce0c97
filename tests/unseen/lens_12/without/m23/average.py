import copy

import torch


class WeightAverage:
    """Keeps a smoothed copy of the weights for sampling."""

    def __init__(self, model, decay=0.995):
        self.shadow = copy.deepcopy(model).requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        torch._foreach_lerp_(list(self.shadow.parameters()), list(model.parameters()), 1 - self.decay)
