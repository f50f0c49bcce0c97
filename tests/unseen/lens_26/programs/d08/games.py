import random

import torch
from torch import nn


class Position:
    """A position of a game: the squares, who moves, how it ended."""

    def __init__(self, squares, white, result):
        self.squares = squares
        self.white = white
        self.result = result


def play(count=60_000, squares=64, pieces=13):
    chance = random.Random(5)
    return [
        Position(bytes(chance.choices(range(pieces), k=squares)), chance.random() < 0.5, chance.choice((-1.0, 0.0, 1.0)))
        for _ in range(count)
    ]


def together(positions):
    squares = torch.frombuffer(bytearray(b"".join(p.squares for p in positions)), dtype=torch.uint8)
    white = torch.tensor([p.white for p in positions])
    result = torch.tensor([p.result for p in positions])
    return squares.view(len(positions), -1).long(), white.float().unsqueeze(1), result


class Judge(nn.Module):
    def __init__(self, squares=64, pieces=13, size=8, width=512):
        super().__init__()
        self.piece = nn.Embedding(pieces, size)
        self.rest = nn.Sequential(
            nn.Linear(squares * size + 1, width), nn.GELU(), nn.Linear(width, width), nn.GELU(),
            nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1), nn.Tanh(),
        )

    def forward(self, squares, white):
        return self.rest(torch.cat([self.piece(squares).flatten(1), white], 1)).squeeze(1)
