"""How hard is each word? Sum of its losses and how often it was seen."""

import torch


class WordLedger:
    def __init__(self, words):
        self.loss = torch.zeros(words).numpy()
        self.seen = torch.zeros(words).numpy()

    def enter(self, ids, losses):
        loss, seen = torch.from_numpy(self.loss), torch.from_numpy(self.seen)
        loss.index_add_(0, ids, losses)
        seen.index_add_(0, ids, torch.ones_like(losses))

    def hardest(self, count):
        mean = torch.from_numpy(self.loss) / torch.from_numpy(self.seen).clamp(min=1)
        return mean.topk(count).indices.tolist()
