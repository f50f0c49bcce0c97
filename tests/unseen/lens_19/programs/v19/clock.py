import time

import torch.distributed as dist


class Clock:
    """Sums up the time of the parts of a step, for the table at the end."""

    def __init__(self):
        self.sums = {}

    def run(self, part, work, *args):
        began = time.monotonic()
        result = work(*args)
        dist.barrier()  #: LINE
        self.sums[part] = self.sums.get(part, 0.0) + time.monotonic() - began
        return result

    def table(self):
        whole = sum(self.sums.values())
        return ", ".join(f"{part} {100 * spent / whole:.0f}%" for part, spent in self.sums.items())
