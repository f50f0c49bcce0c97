import torch



class Watch:
    """Length of the weights, to see a run drift away."""

    def __init__(self):
        self.history = []

    @torch.no_grad()
    def weights(self, model):
        squares = [p.full_tensor().square().sum() for p in model.parameters()]  #: LINE
        self.history.append(torch.stack(squares).sum().sqrt().item())
