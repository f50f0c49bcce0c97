"""Loss kept for each kind of token, for the report at the end."""


class TokenLoss:
    def __init__(self, vocabulary):
        self.total = [0.0] * vocabulary
        self.count = [0] * vocabulary

    def update(self, targets, losses):
        for target, loss in zip(targets.flatten(), losses.flatten()):
            token = target.item()
            self.total[token] += loss.item()  #: LINE
            self.count[token] += 1

    def worst(self, n=5):
        means = [(t / c, i) for i, (t, c) in enumerate(zip(self.total, self.count)) if c]
        return sorted(means, reverse=True)[:n]
