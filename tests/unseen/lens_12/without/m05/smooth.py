import copy

import torch


class Smoothed:
    def __init__(self, model, keep=0.99):
        self.model = copy.deepcopy(model).requires_grad_(False)
        self.mine = list(self.model.parameters())
        self.keep = keep

    @torch.no_grad()
    def follow(self, model):
        torch._foreach_lerp_(self.mine, list(model.parameters()), 1 - self.keep)
