import torch
from torch import nn
from torch.utils.data import Dataset


class Teas(Dataset):
    """What was measured of a tea, and three marks of the tasters."""

    def __init__(self, count=20000, facts=64):
        self.facts = torch.randn(count, facts)
        self.marks = (self.facts @ torch.randn(facts, 3) / 8).sin() + 0.1 * torch.randn(count, 3)

    def __len__(self):
        return len(self.facts)

    def __getitem__(self, picked):
        return self.facts[picked], self.marks[picked]


class Blend(nn.Module):
    """All experts see all teas; for each mark a gate of its own weighs what they say."""

    def __init__(self, facts=64, width=384, experts=5, marks=3):
        super().__init__()
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(facts, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU()) for _ in range(experts)
        )
        self.gates = nn.ModuleList(nn.Linear(facts, experts) for _ in range(marks))
        self.heads = nn.ModuleList(nn.Sequential(nn.Linear(width, 96), nn.SiLU(), nn.Linear(96, 1)) for _ in range(marks))

    def forward(self, facts):
        said = torch.stack([expert(facts) for expert in self.experts], 1)
        marks = []
        for gate, head in zip(self.gates, self.heads):
            weight = gate(facts).softmax(-1)
            marks.append(head(torch.einsum("be,bew->bw", weight, said)))
        return torch.cat(marks, 1)
