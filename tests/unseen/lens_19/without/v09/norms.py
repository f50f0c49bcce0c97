import torch


@torch.no_grad()
def norms(model):
    """Length of each gradient, to see a layer that runs away."""
    return {name: p.grad.full_tensor().norm() for name, p in model.named_parameters()}


class Watch:
    def __init__(self, every=20):
        self.every = every
        self.largest = {}

    def look(self, model, step):
        if step % self.every == self.every - 1:
            lengths = norms(model)
            name = max(lengths, key=lengths.get)
            self.largest[step + 1] = f"{name} {lengths[name].item():.4f}"
