import torch


class Confusion:
    """How often each kind was taken for each other kind."""

    def __init__(self, kinds):
        self.table = torch.zeros(kinds, kinds, dtype=torch.long)

    def add(self, guess, truth):
        for g, t in zip(guess.flatten(), truth.flatten()):
            self.table[t, g] += 1  #: LINE

    def overlap(self):
        both = self.table.diagonal()
        return (both / (self.table.sum(0) + self.table.sum(1) - both).clamp(min=1)).mean().item()
