import copy


class EarlyStopping:
    """Stops when the loss has not fallen for a while, and goes back to the best state."""

    def __init__(self, patience=200, least=0.0, smooth=0.9, every=20):
        self.patience, self.least, self.smooth, self.every = patience, least, smooth, every
        self.mean, self.lowest, self.waited, self.best, self.steps = None, float("inf"), 0, None, 0

    def __call__(self, loss, model, optimizer):
        self.mean = loss if self.mean is None else self.smooth * self.mean + (1 - self.smooth) * loss
        self.steps += 1
        if self.steps % self.every:
            return False
        if self.mean < self.lowest - self.least:
            self.lowest, self.waited = self.mean, 0
            self.best = copy.deepcopy({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
        else:
            self.waited += 1
        return self.waited >= self.patience

    def restore(self, model, optimizer):
        model.load_state_dict(self.best["model"])
        optimizer.load_state_dict(self.best["optimizer"])
