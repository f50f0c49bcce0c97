import torch


class Progress:
    def __init__(self):
        self.right = self.seen = 0
        self.losses = []

    @torch.no_grad()
    def update(self, model, x, y, loss):
        model.eval()
        guess = model(x).argmax(-1)  #: LINE
        model.train()
        self.right += (guess == y).sum()
        self.seen += len(y)
        self.losses.append(loss.detach())

    def text(self):
        return f"loss {torch.stack(self.losses).mean():.3f} accuracy {self.right / self.seen:.3f}"
