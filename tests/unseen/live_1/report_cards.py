"""Each worker files a report card per round; the chief merges them."""
import threading
import traceback

import torch
import torch.distributed as dist


class Timer:
    def __init__(self):
        self.total = 0.0
        self.n = 0

    def tick(self, s):
        self.total += s
        self.n += 1


class SafeTimer(Timer):
    """used where the sampler thread ticks as well"""

    def __init__(self):
        super().__init__()
        self.guard = threading.Lock()

    def tick(self, s):
        with self.guard:
            super().tick(s)


class Worker:
    def __init__(self, rank, world):
        self.rank, self.world = rank, world
        self.threaded = rank == 2
        self.timer = Timer()

    def card(self, rnd):
        if rnd == 4 and self.threaded:
            self.timer = SafeTimer()
        self.timer.tick(0.01 * rnd)
        return {"rank": self.rank, "round": rnd, "timer": self.timer}

    def file(self, rnd):
        out = [None] * self.world if self.rank == 0 else None
        try:
            dist.gather_object(self.card(rnd), out, dst=0)  #: LINE
        except TypeError:
            traceback.print_exc(limit=1)
            return None
        return out

    def work(self, rnd):
        t = torch.full((3,), float(self.rank + rnd))
        dist.all_reduce(t)
        return t


def merge(cards):
    return sum(c["timer"].total for c in cards)


def main():
    dist.init_process_group("gloo")
    w = Worker(dist.get_rank(), dist.get_world_size())
    for rnd in range(8):
        t = w.work(rnd)
        cards = w.file(rnd)
        if cards:
            print(f"round {rnd}: {t[0].item()} merged {merge(cards):.2f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


main()
