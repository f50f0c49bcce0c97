class Smoothed:
    """An average that forgets, for the progress line."""

    def __init__(self, keep=0.9):
        self.keep, self.value, self.count = keep, None, 0

    def update(self, x):
        self.count += 1
        x = x.detach().item()  #: LINE
        self.value = x if self.value is None else self.keep * self.value + (1 - self.keep) * x

    def __str__(self):
        return f"{float(self.value):.4f}" if self.value is not None else "-"
