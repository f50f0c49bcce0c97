import torch


class Average:
    """Mean of the weights over the last steps, for the validation."""

    def __init__(self, model, decay=0.99):
        self.decay = decay
        self.mean = {name: p.detach().to_local().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model):
        for name, p in model.named_parameters():
            self.mean[name].lerp_(p.detach().to_local(), 1 - self.decay)
