import torch


class Scores:
    """Hits and misses of each tag since the begin of the epoch."""

    def __init__(self, tags):
        self.hits = torch.zeros(tags, dtype=torch.long)
        self.seen = torch.zeros(tags, dtype=torch.long)

    def add(self, logits, tags):
        guesses = logits.argmax(-1).flatten()
        tags = tags.flatten()
        self.seen += tags.bincount(minlength=len(self.seen))
        self.hits += tags[guesses == tags].bincount(minlength=len(self.hits))

    def mean(self):
        shares = [hits / seen for hits, seen in zip(self.hits.tolist(), self.seen.tolist()) if seen]
        return sum(shares) / len(shares)
