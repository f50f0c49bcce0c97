from collections import Counter


class PixelScore:
    """How often which class was taken for which, over the epoch."""

    def __init__(self):
        self.pairs = Counter()

    def add_batch(self, predictions, references):
        predictions = predictions.flatten().tolist()
        references = references.flatten().tolist()
        self.pairs.update(zip(predictions, references))

    def compute(self):
        right = sum(n for (p, r), n in self.pairs.items() if p == r)
        return {"pixel_accuracy": right / max(1, sum(self.pairs.values()))}
