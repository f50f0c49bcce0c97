"""What the dashboard shows: the scores of the last batches."""
from collections import deque


class Dashboard:
    def __init__(self, keep=2):
        self.scores = deque(maxlen=keep)
        self.updates = 0

    def push(self, scores):
        self.scores.append(scores)
        self.updates += 1

    def top(self, n=3):
        row = self.scores[-1][0]
        return sorted(range(len(row)), key=lambda i: -float(row[i]))[:n]
