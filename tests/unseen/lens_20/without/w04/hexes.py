import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.Conv2d(width, width, 3, 1, 1), nn.Conv2d(width, width, 3, 1, 1)

    def forward(self, x):
        return torch.relu(x + self.second(torch.relu(self.first(x))))


class Player(nn.Module):
    """Where to put the next stone on a board, and who will win."""

    def __init__(self, side, width, depth):
        super().__init__()
        self.enter = nn.Conv2d(3, width, 5, 1, 2)
        self.blocks = nn.Sequential(*[Block(width) for _ in range(depth)])
        self.move = nn.Conv2d(width, 1, 1)
        self.winner = nn.Sequential(nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(9 * width, 1))

    def forward(self, board):
        x = self.blocks(torch.relu(self.enter(board)))
        return self.move(x).flatten(1), self.winner(x).squeeze(1)


def games(count, side):
    stones = torch.randint(0, 3, (count, side, side))
    boards = torch.stack([stones == kind for kind in range(3)], 1).float()
    return boards, torch.randint(0, side * side, (count,)), (boards[:, 1].sum((1, 2)) > boards[:, 2].sum((1, 2))).float()
