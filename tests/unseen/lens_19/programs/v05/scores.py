class Scores:
    """Hits and misses of each tag since the begin of the epoch."""

    def __init__(self, tags):
        self.hits = [0] * tags
        self.seen = [0] * tags

    def add(self, logits, tags):
        guesses = logits.argmax(-1).flatten()
        for guess, tag in zip(guesses, tags.flatten()):
            self.seen[tag.item()] += 1
            self.hits[tag.item()] += (guess == tag).item()  #: LINE

    def mean(self):
        shares = [hits / seen for hits, seen in zip(self.hits, self.seen) if seen]
        return sum(shares) / len(shares)
