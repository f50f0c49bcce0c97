import copy

import torch


class NanGuard:
    """Goes back to the last good state when a loss or a gradient is not finite."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.step, self.good = -1, None

    def remember(self, step):
        self.good = copy.deepcopy((self.model.state_dict(), self.optimizer.state_dict()))  #: LINE
        self.step = step

    def recover(self):
        model_state, optimizer_state = self.good
        self.model.load_state_dict(model_state)
        self.optimizer.load_state_dict(optimizer_state)
        return self.step

    @staticmethod
    def healthy(loss, norm):
        return bool(torch.isfinite(loss + norm))
