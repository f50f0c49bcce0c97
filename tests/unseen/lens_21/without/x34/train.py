import statistics
import time

import torch
import torch.distributed as dist

from dunes import Critic, Generator, fields
from game import Game


def main(steps=60, batch=20):
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    game = Game(Generator(), Critic())
    torch.manual_seed(1 + dist.get_rank())
    dunes = fields(3000)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        real = dunes[torch.randint(0, len(dunes), (batch,))]
        judged = game.critic_turn(real)
        fooled = game.generator_turn(batch)
        times.append(1e3 * (time.perf_counter() - began))
    if dist.get_rank() == 0:
        print(f"critic {judged.item():.6f}, generator {fooled.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
