import collections


class Journal:
    """The main rank alone writes down the loss and the rate, smoothed over a few steps."""

    def __init__(self, rank, window=8):
        self.rank = rank
        self.last = collections.deque(maxlen=window)
        self.lines = []

    def note(self, step, loss, optimizer):
        if self.rank != 0:
            return
        self.last.append(loss.item())
        mean = sum(self.last) / len(self.last)
        self.lines.append(f"{step} {mean:.4f} {optimizer.param_groups[0]['lr']:.2e}")
