import torch
from torch import nn


class Critic(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.one, self.two, self.out = nn.Linear(inputs, width), nn.Linear(width, width), nn.Linear(width, 1)

    def forward(self, x):
        return self.out(torch.relu(self.two(torch.relu(self.one(x)))))


class Critics(nn.Module):
    """An ensemble of critics, each with its own weights."""

    def __init__(self, inputs, width=64, count=40):
        super().__init__()
        one = [Critic(inputs, width) for _ in range(count)]
        for k, part in enumerate(("one", "two", "out")):
            layers = [getattr(critic, part) for critic in one]
            weight = torch.stack([layer.weight.detach().t() for layer in layers])
            bias = torch.stack([layer.bias.detach()[None] for layer in layers])
            self.register_parameter(f"weight{k}", nn.Parameter(weight))
            self.register_parameter(f"bias{k}", nn.Parameter(bias))
        self.count = count

    def forward(self, states, actions):
        x = torch.cat([states, actions], 1)
        values = []
        for i in range(self.count):
            h = torch.relu(x @ self.weight0[i] + self.bias0[i])
            h = torch.relu(h @ self.weight1[i] + self.bias1[i])
            values.append(h @ self.weight2[i] + self.bias2[i])  #: LINE
        return torch.stack(values)
