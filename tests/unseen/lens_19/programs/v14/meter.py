class Meter:
    """Share of words in the right place, as the paper counts it: on the text."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.right = self.all = 0

    def add(self, logits, goal):
        made = self.tokenizer.batch_decode(logits.argmax(-1), skip_special_tokens=True)  #: LINE
        real = self.tokenizer.batch_decode(goal, skip_special_tokens=True)
        for a, b in zip(made, real):
            b = b.split()
            self.right += sum(x == y for x, y in zip(a.split(), b))
            self.all += len(b)

    def share(self):
        return self.right / max(1, self.all)
