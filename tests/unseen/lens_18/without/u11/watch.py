import torch
import torch.distributed as dist



class Watch:
    """Length of the weights, to see a run drift away."""

    def __init__(self):
        self.history = []

    @torch.no_grad()
    def weights(self, model):
        squares = torch.stack([p.to_local().square().sum() for p in model.parameters()]).sum()
        dist.all_reduce(squares)
        self.history.append(squares.sqrt().item())
