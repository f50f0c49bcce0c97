import numpy as np
from torch.distributed.tensor import DTensor


class Watch:
    """Histograms of the gradients, each rank of its own shards, for the pictures of a run."""

    def __init__(self, model, every, bins=64):
        self.model, self.every, self.bins = model, every, bins
        self.rows = []

    def look(self, step):
        if step % self.every:
            return
        for name, weights in self.model.named_parameters():
            grad = weights.grad.to_local() if isinstance(weights.grad, DTensor) else weights.grad
            counts, edges = np.histogram(grad.numpy(), self.bins)
            self.rows.append((step, name, counts, edges))
