from collections import defaultdict


class History:
    """How sure the model was of the label of each example over time. Where it never is, the label is probably wrong."""

    def __init__(self):
        self.sure = defaultdict(list)

    def add(self, examples, labels, scores):
        chances = scores.softmax(1).gather(1, labels.unsqueeze(1)).squeeze(1)
        for example, chance in zip(examples.tolist(), chances.tolist()):
            self.sure[example].append(chance)

    def suspects(self, least=2, top=20):
        means = {example: sum(seen) / len(seen) for example, seen in self.sure.items() if len(seen) >= least}
        return sorted(means, key=means.get)[:top]
