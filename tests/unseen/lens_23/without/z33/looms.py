import torch
from torch import nn
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import orthogonal


class Weave(nn.Module):
    """A recurrent network whose turning matrix stays orthogonal, so that long threads do not fade."""

    def __init__(self, signals=24, width=128, faults=7):
        super().__init__()
        self.ends = nn.Sequential(
            nn.Conv1d(signals, 2 * width, 5, 2, 2), nn.ReLU(), nn.Conv1d(2 * width, width, 5, 2, 2), nn.ReLU(),
        )
        self.push = nn.Linear(width, width)
        self.turn = orthogonal(nn.Linear(width, width, bias=False), orthogonal_map="cayley")
        self.bias = nn.Parameter(torch.zeros(width))
        self.fault = nn.Linear(width, faults)

    def forward(self, threads):
        inputs = self.push(self.ends(threads).permute(2, 0, 1))
        state = torch.zeros_like(inputs[0])
        with parametrize.cached():
            for now in inputs:
                pulled = now + self.turn(state)
                state = torch.sign(pulled) * torch.relu(pulled.abs() + self.bias)
        return self.fault(state)


def records(count=3000, signals=24, length=72, faults=7):
    """Tension of the threads of a loom, and what went wrong."""
    fault = torch.randint(0, faults, (count,))
    shape = torch.randn(faults, signals, length).cumsum(2) / 4
    return shape[fault] + 3 * torch.randn(count, signals, length), fault
