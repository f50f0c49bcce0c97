import copy

import torch


class ModelEma:
    """A moving average of everything in the state dict, kept in a model of its own."""

    def __init__(self, model, decay=0.995):
        self.module = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        weights = model.state_dict()
        for name, average in self.module.state_dict().items():
            current = weights[name]
            if average.dtype.is_floating_point:
                average.lerp_(current, 1 - self.decay)
            else:
                average.copy_(current)
