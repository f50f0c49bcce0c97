import torch
from torch import nn


class Control(nn.Module):
    """Drives a pump; each state follows from the last one and from the order that it gave, so the loop must be."""

    def __init__(self, sensors=16, width=448):
        super().__init__()
        self.cell = nn.GRUCell(sensors + 4, width)
        self.order = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4))
        self.width = width

    def forward(self, seen):
        state = seen.new_zeros(seen.shape[1], self.width)
        order = seen.new_zeros(seen.shape[1], 4)
        orders = []
        for now in seen:
            state = self.cell(torch.cat([now, order], 1), state)
            order = self.order(state).tanh()
            orders.append(order)
        return torch.stack(orders)
