import statistics
import time

import torch
from torch.nn import functional as F

from hexes import Player, games
from settings import Settings


def setup(settings):
    torch.manual_seed(settings.seed)
    torch.autograd.set_detect_anomaly(settings.check_backward)  #: LINE
    player = Player(settings.side, settings.width, settings.depth)
    return player, torch.optim.AdamW(player.parameters(), lr=settings.rate, fused=True)


def main(settings):
    player, optimizer = setup(settings)
    boards, moves, wins = games(1500, settings.side)
    times = []
    for step in range(settings.steps):
        began = time.perf_counter()
        picked = torch.randint(0, len(boards), (settings.batch,))
        move, winner = player(boards[picked])
        loss = F.cross_entropy(move, moves[picked]) + F.binary_cross_entropy_with_logits(winner, wins[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.5f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main(Settings())
