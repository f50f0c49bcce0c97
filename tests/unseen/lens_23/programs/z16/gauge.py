import torch
from torch.distributed.tensor import DTensor


class Gauge:
    """How large the gradients are: a norm of each shard in each step, a histogram once in a while."""

    def __init__(self, model, often=1, rarely=200, bins=40):
        self.weights = list(model.parameters())
        self.often, self.rarely, self.bins = often, rarely, bins
        self.norms, self.histograms = [], []

    def look(self, step):
        grads = [w.grad.to_local() if isinstance(w.grad, DTensor) else w.grad for w in self.weights]
        if step % self.often == 0:
            self.norms.append(torch.stack(torch._foreach_norm(grads)))
        if step % self.rarely == 0:
            self.histograms.append([torch.histogram(grad, self.bins) for grad in grads])
