import copy


class Best:
    """Remembers the state of the part that learns, where the smoothed loss was lowest."""

    def __init__(self, part, smooth=0.8):
        self.part, self.smooth = part, smooth
        self.mean, self.lowest, self.state, self.step = None, float("inf"), None, -1

    def look(self, step, loss):
        self.mean = loss if self.mean is None else self.smooth * self.mean + (1 - self.smooth) * loss
        if self.mean < self.lowest:
            self.lowest, self.step = self.mean, step
            self.state = copy.deepcopy(self.part.state_dict())

    def restore(self):
        self.part.load_state_dict(self.state)
