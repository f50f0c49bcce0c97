import torch
from torch import nn
from torch.nn import functional as F


class Guild(nn.Module):
    """A layer of several crafts; each token is worked on by the one craft that the gate picks for it."""

    def __init__(self, width, crafts=4):
        super().__init__()
        self.gate = nn.Linear(width, crafts)
        self.crafts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)) for _ in range(crafts)
        )

    def forward(self, x):
        chance = self.gate(x).softmax(-1)
        weight, chosen = chance.max(-1)
        out = torch.zeros_like(x)
        for place, craft in enumerate(self.crafts):
            mine = chosen == place
            out[mine] = craft(x[mine]) * weight[mine].unsqueeze(-1)
        share = F.one_hot(chosen, len(self.crafts)).float().mean((0, 1))
        return out, len(self.crafts) * (share * chance.mean((0, 1))).sum()


class Part(nn.Module):
    def __init__(self, width, heads=4):
        super().__init__()
        self.heads = heads
        self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.look, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.guild = Guild(width)

    def forward(self, x):
        q, k, v = self.look(self.one(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.join(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        worked, balance = self.guild(self.two(x))
        return x + worked, balance


class Chain(nn.Module):
    """Which tool stands next in a work plan, at each place where one is blotted out."""

    def __init__(self, tools=300, width=144, parts=2, longest=48):
        super().__init__()
        self.tool, self.place = nn.Embedding(tools + 1, width), nn.Parameter(0.02 * torch.randn(longest, width))
        self.parts = nn.ModuleList(Part(width) for _ in range(parts))
        self.out = nn.Linear(width, tools)

    def forward(self, plan):
        x, balance = self.tool(plan) + self.place, 0.0
        for part in self.parts:
            x, more = part(x)
            balance = balance + more
        return self.out(x), balance
