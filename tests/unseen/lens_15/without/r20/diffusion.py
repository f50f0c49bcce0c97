import math

import torch


class Noise:
    def __init__(self, steps=1000):
        t = torch.arange(steps + 1) / steps
        alpha = torch.cos((t + 0.008) / 1.008 * math.pi / 2).square()
        self.alpha = (alpha / alpha[0])[1:]

    def __call__(self, clean):
        level = torch.randint(len(self.alpha), (len(clean),))
        alpha = self.alpha[level][:, None, None, None]
        noise = torch.randn_like(clean)
        return alpha.sqrt() * clean + (1 - alpha).sqrt() * noise, noise, level


class Averaged:
    def __init__(self, model, rate=0.995):
        self.rate = rate
        self.values = [p.detach().clone() for p in model.parameters()]
        self.source = list(model.parameters())

    @torch.no_grad()
    def update(self):
        torch._foreach_lerp_(self.values, self.source, 1 - self.rate)
