import torch


class Confusion:
    """Counts which tag was taken for which."""

    def __init__(self, tags):
        self.counts = torch.zeros(tags, tags, dtype=torch.long)

    @torch.no_grad()
    def update(self, scores, truth):
        guesses = scores.argmax(-1)
        for t, g in zip(truth.flatten(), guesses.flatten()):
            self.counts[t, g] += 1  #: LINE

    def f1(self):
        hits = self.counts.diagonal().float()
        return 2 * hits / (self.counts.sum(0) + self.counts.sum(1)).clamp(min=1)
