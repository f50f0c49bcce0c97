import torch


class Progress:
    def __init__(self):
        self.right = self.seen = 0
        self.losses = []

    @torch.no_grad()
    def update(self, scores, y, loss):
        guess = scores.argmax(-1)
        self.right += (guess == y).sum()
        self.seen += len(y)
        self.losses.append(loss.detach())

    def text(self):
        return f"loss {torch.stack(self.losses).mean():.3f} accuracy {self.right / self.seen:.3f}"
