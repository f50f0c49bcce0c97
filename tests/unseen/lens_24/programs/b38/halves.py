import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F


def pings(count=8000, length=256):
    depth = torch.rand(count, 1)
    clock = torch.linspace(0, 1, length)
    return torch.exp(-((clock - depth) * 30) ** 2) + 0.3 * torch.randn(count, length), depth


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))

    def forward(self, x):
        return x + self.inner(x)


class Front(nn.Module):
    def __init__(self, width, rows, length=256, depth=3):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(length, width), *(Residual(width) for _ in range(depth)))
        self.slope = torch.empty(rows, width)

    def work(self, echoes):
        """Sends each part on and takes its gradient back."""
        for echo in echoes:
            middle = self.layers(echo)
            dist.send(middle.detach(), 1)
            dist.recv(self.slope, 1)  #: LINE
            middle.backward(self.slope)


class Back(nn.Module):
    def __init__(self, width, rows, depth=3):
        super().__init__()
        self.layers = nn.Sequential(*(Residual(width) for _ in range(depth)), nn.LayerNorm(width), nn.Linear(width, 1))
        self.rows, self.width = rows, width

    def work(self, depths):
        total = 0
        for depth in depths:
            middle = torch.empty(self.rows, self.width)
            dist.recv(middle, 0)
            middle.requires_grad_()
            loss = F.mse_loss(self.layers(middle), depth) / len(depths)
            loss.backward()
            dist.send(middle.grad, 0)
            total += loss.detach()
        return total
