import torch


@torch.no_grad()
def norms(model):
    """Length of each gradient, to see a layer that runs away."""
    return {name: p.grad.full_tensor().norm() for name, p in model.named_parameters()}  #: LINE


class Watch:
    def __init__(self, every=20):
        self.every = every
        self.largest = {}

    def look(self, model, step):
        lengths = norms(model)
        if step % self.every == self.every - 1:
            name = max(lengths, key=lengths.get)
            self.largest[step + 1] = f"{name} {lengths[name].item():.4f}"
