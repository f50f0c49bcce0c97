"""16 ranks: islands average often, the world seldom, one island is slower."""
import time

import torch
import torch.distributed as dist

SIZE = 4


class Islands:
    def __init__(self):
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        for i in range(self.world // SIZE):
            ranks = list(range(i * SIZE, (i + 1) * SIZE))
            g = dist.new_group(ranks)
            if self.rank in ranks:
                self.mine, self.index = g, i

    def local(self, t):
        dist.all_reduce(t, group=self.mine)
        return t / SIZE

    def everyone(self, t):
        dist.all_reduce(t)
        return t / self.world


def main():
    dist.init_process_group("gloo")
    isl = Islands()
    w = torch.zeros(20)
    g = torch.Generator().manual_seed(isl.rank)
    for rnd in range(4):
        local_steps = 6 if isl.index != 2 else 3
        for _ in range(local_steps):
            w -= 0.1 * isl.local(w - torch.randn(20, generator=g))
            time.sleep(0.05 if isl.index != 1 else 0.3)
        w = isl.everyone(w)
        if isl.rank % SIZE == 0:
            print(f"round {rnd} island {isl.index} |w| {w.norm():.3f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
