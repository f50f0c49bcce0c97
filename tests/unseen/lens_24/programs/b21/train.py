import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

from whitened import Whitened


class Funnel(nn.Module):
    """From the spectrum of a wine to its grapes; each layer is narrower than the one before."""

    def __init__(self, widths=(768, 128), grapes=12):
        super().__init__()
        self.views = nn.ModuleList(nn.Linear(*widths) for _ in range(4))
        self.join = nn.Linear(4 * widths[1], 96)
        self.leave = nn.Linear(96, grapes)

    def forward(self, spectrum):
        views = [F.gelu(view(spectrum.roll(number, 1))) for number, view in enumerate(self.views)]
        return self.leave(F.gelu(self.join(torch.cat(views, 1))))


def cellar(count=6000, points=768, grapes=12):
    parts = torch.rand(count, grapes).pow(3)
    parts = parts / parts.sum(1, keepdim=True)
    return parts @ torch.randn(grapes, points).cumsum(1) / 8 + 0.2 * torch.randn(count, points), parts


def main(steps=60, batch=1024):
    torch.manual_seed(21)
    spectra, parts = cellar()
    model = Funnel()
    wide = [view.weight for view in model.views] + [model.join.weight]
    plain = [view.bias for view in model.views] + [model.join.bias, *model.leave.parameters()]
    matrices, rest = Whitened(wide), torch.optim.AdamW(plain, lr=1e-3, fused=True)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(len(spectra), (batch,))
        loss = F.cross_entropy(model(spectra[picked]), parts[picked])
        model.zero_grad(set_to_none=True)
        loss.backward()
        matrices.step()
        rest.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.5f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
