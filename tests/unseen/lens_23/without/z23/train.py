import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F

from players import Player, play, points, sharded


def main(steps=60, tables=20, dealt=9):
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    player = sharded(Player())
    optimizer = torch.optim.AdamW(player.parameters(), lr=5e-4, foreach=True)
    torch.manual_seed(10 + dist.get_rank())
    times = []
    for step in range(steps):
        began = time.perf_counter()
        hand = torch.randint(0, 52, (tables, dealt))
        played = play(player, hand)
        reward = points(played[:, dealt - 1:])
        gain = (reward - reward.mean()) / (reward.std() + 1e-4)
        said = F.cross_entropy(player(played[:, :-1])[:, dealt - 1:].transpose(1, 2), played[:, dealt:], reduction="none")
        loss = (gain.unsqueeze(1) * said).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if dist.get_rank() == 0:
        print(f"points {reward.mean().item():.4f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
