from collections import Counter


class TagScores:
    """Running F1 of every tag but the filler 0, and how often sure answers are right."""

    def __init__(self, bins=10):
        self.bins = bins
        self.hit, self.said, self.true = Counter(), Counter(), Counter()
        self.sure, self.sure_right = Counter(), Counter()

    def update(self, logits, gold, lengths):
        share, guess = logits.detach().softmax(-1).max(-1)
        for row, length in enumerate(lengths.tolist()):
            for t in range(length):
                want, got = gold[row, t].item(), guess[row, t].item()  #: LINE
                level = int(share[row, t].item() * self.bins)
                self.sure[level] += 1
                self.true[want] += 1
                self.said[got] += 1
                if want == got:
                    self.hit[want] += 1
                    self.sure_right[level] += 1

    def f1(self):
        tags = [tag for tag in self.true if tag != 0]
        parts = [2 * self.hit[t] / max(1, self.said[t] + self.true[t]) for t in tags]
        return sum(parts) / max(1, len(parts))

    def calibration(self):
        return {level / self.bins: self.sure_right[level] / n for level, n in sorted(self.sure.items())}
