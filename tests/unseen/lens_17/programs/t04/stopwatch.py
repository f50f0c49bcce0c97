import collections
import contextlib
import time

import torch.distributed as dist


class Stopwatch:
    """Adds up the time of the parts of a step."""

    def __init__(self):
        self.spent = collections.defaultdict(float)
        self.calls = collections.Counter()

    @contextlib.contextmanager
    def part(self, name):
        dist.barrier()  #: LINE
        began = time.perf_counter()
        yield
        self.spent[name] += time.perf_counter() - began
        self.calls[name] += 1

    def table(self):
        return "  ".join(f"{name} {1e3 * self.spent[name] / self.calls[name]:.1f}" for name in self.spent)
