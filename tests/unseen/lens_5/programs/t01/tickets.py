"""Tickets as token ids; one in eight has no label (-1)."""

import torch


def draw_tickets(count, length, seed):
    rng = torch.Generator().manual_seed(1000 + seed)
    team = torch.randint(0, 12, (count,), generator=rng)
    ids = torch.randint(0, 2000, (count, length), generator=rng)
    ids[:, ::4] = team[:, None] * 150 + ids[:, ::4] % 150
    team[::8] = -1
    return ids, team
