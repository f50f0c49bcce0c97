"""How long a step takes."""
from statistics import mean, median
from time import perf_counter


class Pace:
    """Call tick() once at the end of each step."""

    def __init__(self, warmup=3):
        self.warmup = warmup
        self.stamps = []

    def tick(self):
        self.stamps.append(perf_counter())

    def report(self):
        steps = [1e3 * (b - a) for a, b in zip(self.stamps, self.stamps[1:])][self.warmup:]
        print(f"{median(steps):.2f} ms/step median, {mean(steps):.2f} ms/step", flush=True)
