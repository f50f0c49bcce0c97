import gc
import resource


class Watermark:
    """Keeps the peak of the memory in view."""

    def __init__(self):
        self.peak, self.steps = 0, 0

    def after_step(self):
        self.steps += 1
        if self.steps % 4 == 0:
            gc.collect()  #: LINE
        self.peak = max(self.peak, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
