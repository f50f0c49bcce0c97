import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F


class Thought(nn.Module):
    def __init__(self, width, heads=4):
        super().__init__()
        self.heads = heads
        self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.slim = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = self.qkv(self.one(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.slim(F.gelu(self.wide(self.two(x))))


class Player(nn.Module):
    """Says which card to play, from the cards so far."""

    def __init__(self, cards=53, width=160, thoughts=2, longest=16):
        super().__init__()
        self.card = nn.Embedding(cards, width)
        self.place = nn.Parameter(0.02 * torch.randn(longest, width))
        self.thoughts = nn.ModuleList(Thought(width) for _ in range(thoughts))
        self.say = nn.Linear(width, cards)

    def forward(self, cards):
        x = self.card(cards) + self.place[:cards.shape[1]]
        for thought in self.thoughts:
            x = thought(x)
        return self.say(x)


def sharded(player):
    for thought in player.thoughts:
        fully_shard(thought)
    return fully_shard(player)


@torch.no_grad()
def play(player, hand, moves=6):
    """Plays on from the given cards, card by card, by chance as the player weighs them."""
    for _ in range(moves):
        scores = player(hand)[:, -1]  #: LINE
        hand = torch.cat([hand, torch.multinomial(scores.softmax(-1), 1)], 1)
    return hand


def points(played):
    """Rising runs count, cards of one suit count more."""
    before, after = played[:, :-1], played[:, 1:]
    return ((after > before).float() + 2 * (after // 13 == before // 13).float()).mean(1)
