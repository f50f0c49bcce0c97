import torch


class Tally:
    """How often each animal was heard and how often it was recognised."""

    def __init__(self, names):
        self.counts = {name: [0, 0] for name in names}

    def add(self, guess, truth):
        right = truth[guess == truth]
        heard = torch.bincount(truth, minlength=len(self.counts))
        known = torch.bincount(right, minlength=len(self.counts))
        for name, all_of, right_of in zip(self.counts, heard, known):
            self.counts[name][0] += all_of.item()
            self.counts[name][1] += right_of.item()

    def __str__(self):
        return ", ".join(f"{name} {right}/{heard}" for name, (heard, right) in self.counts.items())
