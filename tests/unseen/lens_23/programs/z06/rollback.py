import copy

import torch


class Rollback:
    """Goes back to the last good state when the gradient blows up."""

    def __init__(self, model, optimizer, every=1):
        self.model, self.optimizer, self.every = model, optimizer, every
        self.good, self.steps, self.times = None, 0, 0

    def keep(self):
        if self.steps % self.every == 0:
            self.good = copy.deepcopy((self.model.state_dict(), self.optimizer.state_dict()))  #: LINE
        self.steps += 1

    def guard(self, norm):
        """True where the step may be made."""
        if torch.isfinite(norm):
            return True
        self.times += 1
        if self.good is not None:
            self.model.load_state_dict(self.good[0])
            self.optimizer.load_state_dict(self.good[1])
        return False
