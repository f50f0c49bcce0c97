import torch
from torch import nn
from torch.nn import functional as F


class Ear(nn.Module):
    """Which machine it is that hums."""

    def __init__(self, width=72, machines=12):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, width, 9, 2, 4), nn.ReLU(), nn.Conv1d(width, width, 5, 2, 2), nn.ReLU(),
            nn.Conv1d(width, 2 * width, 5, 2, 2), nn.ReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten(),
            nn.Linear(8 * width, 256), nn.ReLU(), nn.Linear(256, machines),
        )

    def forward(self, hum):
        return self.net(hum)


class Free:
    """Adversarial training "for free": each batch is used several times, and one backward pass
    gives the gradients of the weights and of the disturbance, both of which take a step."""

    def __init__(self, model, optimizer, shape, far=0.2):
        self.model, self.optimizer, self.far = model, optimizer, far
        self.change = torch.zeros(shape, requires_grad=True)

    def step(self, hum, machine, again=2):
        for _ in range(again):
            loss = F.cross_entropy(self.model(hum + self.change), machine)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            with torch.no_grad():
                self.change.add_(self.change.grad.sign(), alpha=self.far).clamp_(-self.far, self.far)
            self.change.grad = None
        return loss.detach()
