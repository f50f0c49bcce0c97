class Scores:
    def __init__(self):
        self.guesses, self.truths = [], []

    def add(self, guess, truth):
        self.guesses.extend((guess.cpu() > 0).tolist())
        self.truths.extend(truth.cpu().bool().tolist())

    def accuracy(self):
        return sum(g == t for g, t in zip(self.guesses, self.truths)) / len(self.truths)
