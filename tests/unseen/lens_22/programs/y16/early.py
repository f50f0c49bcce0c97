import copy


class EarlyStopping:
    """Stops when the loss has not fallen for a while, and goes back to the best state."""

    def __init__(self, patience=200, least=0.0, smooth=0.9):
        self.patience, self.least, self.smooth = patience, least, smooth
        self.mean, self.lowest, self.waited, self.best = None, float("inf"), 0, None

    def __call__(self, loss, model, optimizer):
        self.mean = loss if self.mean is None else self.smooth * self.mean + (1 - self.smooth) * loss
        if self.mean < self.lowest - self.least:
            self.lowest, self.waited = self.mean, 0
            self.best = copy.deepcopy({"model": model.state_dict(), "optimizer": optimizer.state_dict()})  #: LINE
        else:
            self.waited += 1
        return self.waited >= self.patience

    def restore(self, model, optimizer):
        model.load_state_dict(self.best["model"])
        optimizer.load_state_dict(self.best["optimizer"])
