import logging

import torch
from torch import nn

log = logging.getLogger(__name__)


class Tides(nn.Module):
    """Level at a harbour for the next hours, by dilated convolutions."""

    def __init__(self, width=128, layers=5):
        super().__init__()
        self.enter = nn.Conv1d(4, width, 1)
        self.layers = nn.ModuleList(
            nn.Conv1d(width, width, 3, dilation=2**i, padding=2**i) for i in range(layers)
        )
        self.leave = nn.Conv1d(width, 1, 1)

    def trace(self, name, h):
        log.debug(f"{name}: {tuple(h.shape)} head {h[0, :8, :8]} range {h.amin()} {h.amax()}")  #: LINE

    def forward(self, x):
        h = self.enter(x)
        self.trace("enter", h)
        for i, layer in enumerate(self.layers):
            change = torch.relu(layer(h))
            self.trace(f"change {i}", change)
            h = h + change
            self.trace(f"layer {i}", h)
        return self.leave(h).squeeze(1)
