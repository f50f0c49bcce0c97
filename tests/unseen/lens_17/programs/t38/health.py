import torch


class Health:
    """Keeps an eye on the size of the weights; stops the run when they blow up."""

    def __init__(self, limit=1e4):
        self.limit, self.norm = limit, None

    @torch.no_grad()
    def check(self, model):
        squares = torch.zeros(())
        for weight in model.parameters():
            squares += weight.full_tensor().square().sum()  #: LINE
        self.norm = squares.sqrt().item()
        if self.norm > self.limit:
            raise RuntimeError(f"weights have a norm of {self.norm:.1f}")
